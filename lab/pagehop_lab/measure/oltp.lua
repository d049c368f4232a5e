-- The OLTP microbenchmarks: one table, and one or a few statements for each test, with the names,
-- columns and ranges of the published ones. Statements are prepared once for each connection. Only
-- `scan` and `insert` are sent as text, like the published ones.
--
-- Two things differ from the published script. Column k is uniform: sysbench's own loader puts
-- three quarters of its values into 1% of their range, so a few of the ranges over k would cost
-- nearly everything. And `delete` deletes each row once: the published one draws rows that may be
-- gone.
--
-- At the end of every interval each connection prints its count of events and queries, and the time
-- of the monotonic clock: "tell THREAD SECONDS EVENTS QUERIES". The reader takes differences, so a
-- long query is not cut.

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } pagehop_time;
int clock_gettime(int clock, pagehop_time *time);
]]

sysbench.cmdline.options = {
  case = { "One of the tests below", "" },
  rows = { "Rows of the table", 100000 },
  range = { "Rows that a query is about", 100 },
  interval = { "Seconds between two lines", 0.25 },
  turns = { "Whether to wait for a line of input before each interval", false },
  again = { "One in this many events is executed twice and counted once; 0 is none", 0 },
}

local INT, CHAR = sysbench.sql.type.INT, sysbench.sql.type.CHAR
local CLOCK_MONOTONIC = 1
local C_FORM, PAD_FORM = string.rep("###########-", 9) .. "###########", string.rep("###########-", 4) .. "###########"
-- Any number that has no factor in common with the number of rows visits every row once.
local STRIDE = 7919

local connection, random_id
local time = ffi.new("pagehop_time")

local function now()
  ffi.C.clock_gettime(CLOCK_MONOTONIC, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end

-- ---- statements ----

-- A statement with `count` whole numbers as parameters: a function that takes them and executes it.
local function with_numbers(text, count)
  local statement = connection:prepare(text)
  local parameters = {}
  for number = 1, count do parameters[number] = statement:bind_create(INT) end
  if count > 0 then statement:bind_param(unpack(parameters)) end
  return function(...)
    for number = 1, count do parameters[number]:set((select(number, ...))) end
    statement:execute()
  end
end

-- The same for a list of numbers, each made by a function for each execution.
local function with_list(text, count, make)
  local statement = connection:prepare(string.format(text, "?" .. string.rep(",?", count - 1)))
  local parameters = {}
  for number = 1, count do parameters[number] = statement:bind_create(INT) end
  statement:bind_param(unpack(parameters))
  return function()
    for number = 1, count do parameters[number]:set(make(number)) end
    statement:execute()
    return 1
  end
end

-- A statement whose first parameter is a new text for column c, and whose second is a row.
local function with_text(text)
  local statement = connection:prepare(text)
  local c, id = statement:bind_create(CHAR, 120), statement:bind_create(INT)
  statement:bind_param(c, id)
  return function(row)
    c:set_rand_str(C_FORM)
    id:set(row)
    statement:execute()
  end
end

local function one(execute, make)
  return function()
    execute(make())
    return 1
  end
end

-- A text for column c, and a list of rows.
local function with_text_and_list(text, count, make)
  local statement = connection:prepare(string.format(text, "?" .. string.rep(",?", count - 1)))
  local parameters = { statement:bind_create(CHAR, 120) }
  for number = 1, count do parameters[number + 1] = statement:bind_create(INT) end
  statement:bind_param(unpack(parameters))
  return function()
    parameters[1]:set_rand_str(C_FORM)
    for number = 1, count do parameters[number + 1]:set(make(number)) end
    statement:execute()
    return 1
  end
end

-- Rows from a random one to the one `further` rows after it.
local function between(text, further)
  local execute = with_numbers(text, 2)
  return function()
    local first = random_id()
    execute(first, first + further)
    return 1
  end
end

-- Each row once, in an order that looks random. A delete that finds nothing would not be a delete.
local function every_row()
  local rows, at, step = sysbench.opt.rows, sysbench.tid, sysbench.opt.threads
  if rows % STRIDE == 0 then error("rows may not be a multiple of " .. STRIDE) end
  return function()
    if at >= rows then error("every row was deleted: the plan needs more rows, or fewer seconds") end
    at = at + step
    return (at * STRIDE) % rows + 1
  end
end

-- Rows by Zipf's law with exponent 0.8, the first rows most often, as sysbench draws them from 1.1
-- on. By inversion, after Gray et al., Quickly Generating Billion-Record Synthetic Databases
-- (SIGMOD 1994), section 3.2.
local function zipf(rows)
  local theta, zeta = 0.8, 0
  for rank = 1, rows do zeta = zeta + rank ^ -theta end
  local alpha = 1 / (1 - theta)
  local eta = (1 - (2 / rows) ^ (1 - theta)) / (1 - (1 + 0.5 ^ theta) / zeta)
  local function rank()
    local drawn = sysbench.rand.uniform_double()
    if drawn * zeta < 1 then return 0 end
    if drawn * zeta < 1 + 0.5 ^ theta then return 1 end
    return math.min(math.floor(rows * (eta * drawn - eta + 1) ^ alpha), rows - 1)
  end
  return function() return rank() + 1 end
end

local function inserting()
  local statement = connection:prepare("INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)")
  local id, k = statement:bind_create(INT), statement:bind_create(INT)
  local c, pad = statement:bind_create(CHAR, 120), statement:bind_create(CHAR, 60)
  statement:bind_param(id, k, c, pad)
  return function(row)
    id:set(row)
    k:set(random_id())
    c:set_rand_str(C_FORM)
    pad:set_rand_str(PAD_FORM)
    statement:execute()
  end
end

-- ---- transactions of several statements ----

local function in_transaction(parts)
  local begin, commit = connection:prepare("BEGIN"), connection:prepare("COMMIT")
  return function()
    begin:execute()
    local count = 2
    for _, part in ipairs(parts) do count = count + part() end
    commit:execute()
    return count
  end
end

local function reads()
  local further = sysbench.opt.range - 1
  local point = with_numbers("SELECT c FROM sbtest1 WHERE id = ?", 1)
  return {
    function()
      for _ = 1, 10 do point(random_id()) end
      return 10
    end,
    between("SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?", further),
    between("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?", further),
    between("SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c", further),
    between("SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c", further),
  }
end

local function writes()
  local delete, insert = with_numbers("DELETE FROM sbtest1 WHERE id = ?", 1), inserting()
  return {
    one(with_numbers("UPDATE sbtest1 SET k = k + 1 WHERE id = ?", 1), random_id),
    one(with_text("UPDATE sbtest1 SET c = ? WHERE id = ?"), random_id),
    function()
      local row = random_id()
      delete(row)
      insert(row)
      return 2
    end,
  }
end

-- ---- the tests: each makes what one event does, which gives the number of its queries ----

local function points(select, column)
  local text = select .. " FROM sbtest1 WHERE " .. column .. " IN (%s)"
  return function() return with_list(text, sysbench.opt.range, random_id) end
end

-- A range has one row more than its name says, as the published ones do.
local function ranges(select, column)
  local text = select .. " FROM sbtest1 WHERE " .. column .. " BETWEEN ? AND ?"
  return function() return between(text, sysbench.opt.range) end
end

-- A statement that is sent as text.
local function as_text(make)
  return function()
    connection:query(make())
    return 1
  end
end

local TESTS = {
  ["ceiling"] = function() return one(with_numbers("SELECT 1", 0), function() end) end,
  ["hot-points"] = function()
    local first = math.floor(sysbench.opt.rows / 2)
    local function hot(number) return first + number end
    return with_list("SELECT c FROM sbtest1 WHERE id IN (%s)", sysbench.opt.range, hot)
  end,
  ["point-query"] = function() return one(with_numbers("SELECT c FROM sbtest1 WHERE id = ?", 1), random_id) end,
  -- Past the parser and the optimizer. It cannot be prepared: its text is sent.
  ["point-handler"] = function()
    connection:query("HANDLER sbtest1 OPEN")
    return as_text(function() return string.format("HANDLER sbtest1 READ `PRIMARY` = (%d)", random_id()) end)
  end,
  ["points-covered-pk"] = points("SELECT id", "id"),
  ["points-covered-si"] = points("SELECT k", "k"),
  ["points-notcovered-pk"] = points("SELECT id, c", "id"),
  ["points-notcovered-si"] = points("SELECT k, c", "k"),
  ["random-points"] = points("SELECT c", "id"),
  ["range-covered-pk"] = ranges("SELECT id", "id"),
  ["range-covered-si"] = ranges("SELECT k", "k"),
  ["range-notcovered-pk"] = ranges("SELECT id, c", "id"),
  ["range-notcovered-si"] = ranges("SELECT k, c", "k"),
  ["read-only"] = function() return in_transaction(reads()) end,
  ["scan"] = function() return as_text(function() return "SELECT * FROM sbtest1 WHERE LENGTH(c) < 0" end) end,
  ["update-index"] = function() return one(with_numbers("UPDATE sbtest1 SET k = k + 1 WHERE id = ?", 1), random_id) end,
  ["update-inlist"] = function()
    return with_text_and_list("UPDATE sbtest1 SET c = ? WHERE id IN (%s)", sysbench.opt.range, random_id)
  end,
  ["update-nonindex"] = function() return one(with_text("UPDATE sbtest1 SET c = ? WHERE id = ?"), random_id) end,
  ["update-one"] = function()
    return one(with_text("UPDATE sbtest1 SET c = ? WHERE id = ?"), function() return 1 end)
  end,
  ["update-zipf"] = function() return one(with_text("UPDATE sbtest1 SET c = ? WHERE id = ?"), zipf(sysbench.opt.rows)) end,
  ["write-only"] = function() return in_transaction(writes()) end,
  ["read-write"] = function()
    local parts = reads()
    for _, part in ipairs(writes()) do table.insert(parts, part) end
    return in_transaction(parts)
  end,
  ["delete"] = function() return one(with_numbers("DELETE FROM sbtest1 WHERE id = ?", 1), every_row()) end,
  ["insert"] = function()
    return as_text(function()
      local k, c, pad = random_id(), sysbench.rand.string(C_FORM), sysbench.rand.string(PAD_FORM)
      return string.format("INSERT INTO sbtest1 (k, c, pad) VALUES (%d, '%s', '%s')", k, c, pad)
    end)
  end,
}

-- ---- what sysbench calls ----

function prepare()
  local rows = sysbench.opt.rows
  local driver = sysbench.sql.driver()
  local loading = driver:connect()
  local id = driver:name() == "pgsql" and "SERIAL" or "INTEGER NOT NULL AUTO_INCREMENT"
  loading:query(string.format([[
    CREATE TABLE sbtest1 (
      id %s, k INTEGER DEFAULT 0 NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL,
      PRIMARY KEY (id))]], id))
  loading:bulk_insert_init("INSERT INTO sbtest1 (k, c, pad) VALUES")
  for _ = 1, rows do
    local k, c, pad = sysbench.rand.uniform(1, rows), sysbench.rand.string(C_FORM), sysbench.rand.string(PAD_FORM)
    loading:bulk_insert_next(string.format("(%d, '%s', '%s')", k, c, pad))
  end
  loading:bulk_insert_done()
  loading:query("CREATE INDEX k_1 ON sbtest1 (k)")
  loading:disconnect()
end

local execute
local events, queries, next_told = 0, 0, 0
local waits, again

function thread_init()
  connection = sysbench.sql.driver():connect()
  local rows = sysbench.opt.rows
  random_id = function() return sysbench.rand.uniform(1, rows) end
  local make = TESTS[sysbench.opt.case]
  if make == nil then error("there is no test '" .. sysbench.opt.case .. "'") end
  execute = make()
  next_told = now()
  waits, again = false, sysbench.opt.again
end

local function tell(at)
  io.write(string.format("tell %d %.6f %d %d\n", sysbench.tid, at, events, queries))
  io.flush()
  next_told = at + sysbench.opt.interval
end

function event()
  if waits then
    -- Between two turns nothing is on its way: who is asked next has the machine for itself.
    if io.read("*l") == nil then error("the input that gives turns has ended") end
    tell(now())
    waits = false
  end
  queries = queries + execute()
  events = events + 1
  if again > 0 and events % again == 0 then execute() end
  local at = now()
  if at >= next_told then
    tell(at)
    waits = sysbench.opt.turns
  end
end

function thread_done()
  connection:disconnect()
end

-- Nothing but the lines above is said.
sysbench.hooks.report_cumulative = function() end
