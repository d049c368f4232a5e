-- The OLTP microbenchmarks: one table, one statement or a few for each test, prepared once for each connection.
--
-- Each connection says at the end of every interval how many events and queries it has done and when, by the clock that
-- nobody sets: "tell THREAD SECONDS EVENTS QUERIES". Who listens takes differences, so a query that takes long is not cut.

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
  again = { "Every so many events one is executed twice and counted once; 0 is none", 0 },
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

-- A statement with so many whole numbers as parameters: a function that takes them and executes it.
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

-- The same for a list of numbers that a function makes anew for each execution.
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

local function between(text)
  local length, execute = sysbench.opt.range, with_numbers(text, 2)
  return function()
    local first = random_id()
    execute(first, first + length - 1)
    return 1
  end
end

-- Rows one after the other, each once, in an order that looks like none. A delete that finds nothing is no delete.
local function every_row()
  local rows, at, step = sysbench.opt.rows, sysbench.tid, sysbench.opt.threads
  if rows % STRIDE == 0 then error("rows may not be a multiple of " .. STRIDE) end
  return function()
    if at >= rows then error("every row was deleted: the plan needs more rows, or fewer seconds") end
    at = at + step
    return (at * STRIDE) % rows + 1
  end
end

-- Rows by Zipf's law with exponent 0.8: a few of them, anywhere in the table, are wanted most. By inversion, after Gray et
-- al., Quickly Generating Billion-Record Synthetic Databases (SIGMOD 1994), section 3.2.
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
  return function() return (rank() * STRIDE) % rows + 1 end
end

local function inserting()
  local statement = connection:prepare("INSERT INTO items (id, k, c, pad) VALUES (?, ?, ?, ?)")
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
  return function()
    connection:query("BEGIN")
    local count = 2
    for _, part in ipairs(parts) do count = count + part() end
    connection:query("COMMIT")
    return count
  end
end

local function reads()
  local point = with_numbers("SELECT c FROM items WHERE id = ?", 1)
  return {
    function()
      for _ = 1, 10 do point(random_id()) end
      return 10
    end,
    between("SELECT c FROM items WHERE id BETWEEN ? AND ?"),
    between("SELECT SUM(k) FROM items WHERE id BETWEEN ? AND ?"),
    between("SELECT c FROM items WHERE id BETWEEN ? AND ? ORDER BY c"),
    between("SELECT DISTINCT c FROM items WHERE id BETWEEN ? AND ? ORDER BY c"),
  }
end

local function writes()
  local delete, insert = with_numbers("DELETE FROM items WHERE id = ?", 1), inserting()
  return {
    one(with_numbers("UPDATE items SET k = k + 1 WHERE id = ?", 1), random_id),
    one(with_text("UPDATE items SET c = ? WHERE id = ?"), random_id),
    function()
      local row = random_id()
      delete(row)
      insert(row)
      return 2
    end,
  }
end

-- ---- the tests: each makes what one event does, which gives the number of its queries ----

local function random_points(select, column)
  return function() return with_list(select .. " FROM items WHERE " .. column .. " IN (%s)", sysbench.opt.range, random_id) end
end

local function ranges(select, column)
  return function() return between(select .. " FROM items WHERE " .. column .. " BETWEEN ? AND ?") end
end

local TESTS = {
  ["ceiling"] = function() return one(with_numbers("SELECT 1", 0), function() end) end,
  ["hot-points"] = function()
    local first = math.floor(sysbench.opt.rows / 2)
    return with_list("SELECT id, k, c, pad FROM items WHERE id IN (%s)", sysbench.opt.range, function(number) return first + number end)
  end,
  ["point-query"] = function() return one(with_numbers("SELECT c FROM items WHERE id = ?", 1), random_id) end,
  ["points-covered-pk"] = random_points("SELECT id", "id"),
  ["points-covered-si"] = random_points("SELECT k", "k"),
  ["points-notcovered-pk"] = random_points("SELECT c", "id"),
  ["points-notcovered-si"] = random_points("SELECT c", "k"),
  ["random-points"] = random_points("SELECT id, k, c, pad", "id"),
  ["range-covered-pk"] = ranges("SELECT COUNT(id)", "id"),
  ["range-covered-si"] = ranges("SELECT COUNT(k)", "k"),
  ["range-notcovered-pk"] = ranges("SELECT SUM(LENGTH(c))", "id"),
  ["range-notcovered-si"] = ranges("SELECT SUM(LENGTH(c))", "k"),
  ["read-only"] = function() return in_transaction(reads()) end,
  ["scan"] = function() return one(with_numbers("SELECT COUNT(*) FROM items WHERE LENGTH(c) < 0", 0), function() end) end,
  ["update-index"] = function() return one(with_numbers("UPDATE items SET k = k + 1 WHERE id = ?", 1), random_id) end,
  ["update-inlist"] = function() return with_list("UPDATE items SET k = k + 1 WHERE id IN (%s)", sysbench.opt.range, random_id) end,
  ["update-nonindex"] = function() return one(with_text("UPDATE items SET c = ? WHERE id = ?"), random_id) end,
  ["update-one"] = function()
    local row = math.floor(sysbench.opt.rows / 2)
    return one(with_text("UPDATE items SET c = ? WHERE id = ?"), function() return row end)
  end,
  ["update-zipf"] = function() return one(with_text("UPDATE items SET c = ? WHERE id = ?"), zipf(sysbench.opt.rows)) end,
  ["write-only"] = function() return in_transaction(writes()) end,
  ["read-write"] = function()
    local parts = reads()
    for _, part in ipairs(writes()) do table.insert(parts, part) end
    return in_transaction(parts)
  end,
  ["delete"] = function() return one(with_numbers("DELETE FROM items WHERE id = ?", 1), every_row()) end,
  ["insert"] = function()
    local insert, row = inserting(), sysbench.opt.rows + sysbench.tid
    local step = sysbench.opt.threads
    return one(insert, function()
      row = row + step
      return row
    end)
  end,
}

-- ---- what sysbench calls ----

function prepare()
  local rows = sysbench.opt.rows
  local loading = sysbench.sql.driver():connect()
  loading:query("CREATE TABLE items (id INTEGER NOT NULL, k INTEGER NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, PRIMARY KEY (id))")
  loading:bulk_insert_init("INSERT INTO items (id, k, c, pad) VALUES")
  for id = 1, rows do
    local k, c, pad = sysbench.rand.uniform(1, rows), sysbench.rand.string(C_FORM), sysbench.rand.string(PAD_FORM)
    loading:bulk_insert_next(string.format("(%d, %d, '%s', '%s')", id, k, c, pad))
  end
  loading:bulk_insert_done()
  loading:query("CREATE INDEX items_k ON items (k)")
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
    if io.read("*l") == nil then error("nobody gives turns any more") end
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
