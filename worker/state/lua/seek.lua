-- The jobs of some messages of one queue. KEYS: the list. ARGV: its first place to look at, and the last.
local found = {}
for _, message in ipairs(redis.call('LRANGE', KEYS[1], ARGV[1], ARGV[2])) do
  local read, content = pcall(cjson.decode, message)
  local about = read and type(content) == 'table' and content.properties
  local id = type(about) == 'table' and about.correlation_id
  found[#found + 1] = type(id) == 'string' and id or ''
end
return found
