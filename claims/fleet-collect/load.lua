-- Pings with ids that never come again, so many in each request; wrk sends them.
local each = tonumber(os.getenv("PINGS_EACH") or "100")
local day = os.date("!%Y-%m-%d")
local salt, number = 0, 0
local threads = 0
function setup(thread) thread:set("salt", threads); threads = threads + 1 end
function init() math.randomseed(os.time()); run = math.random(0, 2^31 - 1) end
function request()
  local lines = {}
  for at = 1, each do
    number = number + 1
    lines[at] = string.format(
      '{"schema":"thaw.ping/1","id":"%08x%08x%016x","machine":"%032x","app":"firefox","version":"128.0","day":"%s",' ..
      '"state":"hot","ready":"exit","wall_us":%d,"user_us":900000,"system_us":300000,"minor_faults":40000,' ..
      '"major_faults":2,"read_bytes":4096,"max_rss_bytes":314572800,"milestones":{"first_paint":600000},' ..
      '"cpus":"2","memory":"8-16G","disk":"nvme","kernel":"6.18","distribution":"debian","remedies":["preload"]}',
      run, salt, number, number % 10000, day, 1000000 + number % 1000)
  end
  return wrk.format("POST", "/v1/pings", nil, table.concat(lines, "\n") .. "\n")
end
