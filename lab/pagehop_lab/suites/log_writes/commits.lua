-- Commits of one size: each inserts a row with a text of that size. The output is that of oltp.lua.

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } pagehop_time;
int clock_gettime(int clock, pagehop_time *time);
]]

sysbench.cmdline.options = {
  bytes = { "Bytes of a row's text", 100 },
  first = { "The first row", 1 },
  interval = { "Seconds between two lines", 0.1 },
}

local CLOCK_MONOTONIC = 1
local time = ffi.new("pagehop_time")
local connection, statement, id
local commits, next_told = 0, 0

local function now()
  ffi.C.clock_gettime(CLOCK_MONOTONIC, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end

function thread_init()
  connection = sysbench.sql.driver():connect()
  -- One text for all rows: no log compresses it, and PostgreSQL's driver takes parameters of at
  -- most 256 bytes.
  local text = sysbench.rand.string(string.rep("@", sysbench.opt.bytes))
  statement = connection:prepare(string.format("INSERT INTO commits (id, c) VALUES (?, '%s')", text))
  id = statement:bind_create(sysbench.sql.type.BIGINT)
  statement:bind_param(id)
  next_told = now()
end

function event()
  id:set(sysbench.opt.first + commits * sysbench.opt.threads + sysbench.tid)
  statement:execute()
  commits = commits + 1
  local at = now()
  if at >= next_told then
    io.write(string.format("tell %d %.6f %d %d\n", sysbench.tid, at, commits, commits))
    io.flush()
    next_told = at + sysbench.opt.interval
  end
end

-- The last word: everything that was committed.
function thread_done()
  io.write(string.format("tell %d %.6f %d %d\n", sysbench.tid, now(), commits, commits))
  io.flush()
  connection:disconnect()
end

sysbench.hooks.report_cumulative = function() end
