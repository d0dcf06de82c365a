-- Who waits on a lane, before whom, and what its owner says.

-- How many wait in a queue; with a ticket, how many of them before it.
local function tickets_before(waiting, queue, ticket)
  return redis.call('ZLEXCOUNT', waiting, '[' .. queue .. ' ', '(' .. (ticket or queue .. '!'))
end

-- What the owner of a lane says of what it has under way, '' where it is dead or nobody has said anything.
local function said_of(lanes, lane, workers, now, dead_after)
  local text = redis.call('HGET', lanes, lane)
  local owner = text and cjson.decode(text).owner
  return type(owner) == 'string' and alive(workers, owner, now, dead_after) and text or ''
end

-- What a waiting job's place is told from: its lane, its priority, how many wait before it in its queue and in all, how
-- many in the other queue, the lane's pace, and what its owner says. Nothing where it waits in no queue, or in one in
-- which no place matters, since many are taken at once.
local function standing(job, waiting, pace, lanes, workers, now, dead_after)
  local record = fields(job, 'status', 'lane', 'priority', 'ticket')
  if record.status ~= 'queued' or not record.ticket or record.lane == 'cloud' then return {} end
  local batch = record.priority == 'batch'
  local own, other = queue_of(record.lane, record.priority), queue_of(record.lane, not batch and 'batch' or '')
  return {record.lane, batch and 1 or 0, tickets_before(waiting, own, record.ticket), tickets_before(waiting, own),
    tickets_before(waiting, other), redis.call('HGET', pace, record.lane) or '',
    said_of(lanes, record.lane, workers, now, dead_after)}
end
