#include "auth/ledger/usage_scripts.h"

/* Functions that the scripts share. A mark or a count that another program has overwritten counts
 * as none. */
#define ASIDE                                                                                      \
    "local function kind(key)\n"                                                                   \
    "  local found = redis.call('TYPE', key)\n"                                                    \
    "  return type(found) == 'table' and found.ok or found\n"                                      \
    "end\n"                                                                                        \
    "local function aside(key, to)\n"                                                              \
    "  redis.call('RENAME', key, to)\n"                                                            \
    "  redis.call('EXPIRE', to, 604800)\n"                                                         \
    "end\n"                                                                                        \
    "local function mark_of(text)\n"                                                               \
    "  if text and #text <= 15 and string.find(text, '^%d+$') then return tonumber(text) end\n"    \
    "  return nil\n"                                                                               \
    "end\n"

/* Adds the five numbers from ARGV[at] on to the hash's five totals and to the five fields of a
 * model and class. A sum that would be beyond 64 bits (a cost) stays at the greatest number. Before
 * anything is added, Redis is asked whether every field is a number. */
#define ADD                                                                                        \
    "local is_over = false\n"                                                                      \
    "local looked = {}\n"                                                                          \
    "local names = {'requests', 'input', 'cached', 'output', 'cost_nano'}\n"                       \
    "local function is_sound(tail)\n"                                                              \
    "  if looked[tail] then return true end\n"                                                     \
    "  for _, name in ipairs(names) do\n"                                                          \
    "    local found = redis.pcall('HINCRBY', KEYS[1], name .. tail, 0)\n"                         \
    "    if type(found) ~= 'number' then\n"                                                        \
    "      if string.find(found.err, 'not an integer', 1, true) then return false end\n"           \
    "      error(found.err)\n"                                                                     \
    "    end\n"                                                                                    \
    "  end\n"                                                                                      \
    "  looked[tail] = true\n"                                                                      \
    "  return true\n"                                                                              \
    "end\n"                                                                                        \
    "local function add(name, by)\n"                                                               \
    "  local done = redis.pcall('HINCRBY', KEYS[1], name, by)\n"                                   \
    "  if type(done) == 'number' then return end\n"                                                \
    "  if string.find(done.err, 'overflow', 1, true) then\n"                                       \
    "    is_over = true\n"                                                                         \
    "    redis.call('HSET', KEYS[1], name, '9223372036854775807')\n"                               \
    "  else\n"                                                                                     \
    "    redis.call('HINCRBY', KEYS[1], name, by)\n"                                               \
    "  end\n"                                                                                      \
    "end\n"                                                                                        \
    "local function add_all(tail, at)\n"                                                           \
    "  for i, name in ipairs(names) do\n"                                                          \
    "    add(name, ARGV[at + i - 1])\n"                                                            \
    "    add(name .. tail, ARGV[at + i - 1])\n"                                                    \
    "  end\n"                                                                                      \
    "end\n"

static const char *const texts[USAGE_SCRIPTS] = {
    [USAGE_SCRIPT_ADD] = ASIDE ADD
    "local field = 'hwm:' .. ARGV[1]\n"
    "if kind(KEYS[1]) ~= 'hash' then return -1 end\n"
    "local mark = mark_of(redis.call('HGET', KEYS[1], field))\n"
    "if not mark or mark > tonumber(ARGV[2]) then return -1 end\n"
    "if not is_sound('') then return -1 end\n"
    "for i = 3, #ARGV, 7 do\n"
    "  if not is_sound(ARGV[i + 1]) then return -1 end\n"
    "end\n"
    "local added = 0\n"
    "for i = 3, #ARGV, 7 do\n"
    "  local sequence = tonumber(ARGV[i])\n"
    "  if sequence > mark then\n"
    "    add_all(ARGV[i + 1], i + 2)\n"
    "    mark = sequence\n"
    "    added = added + 1\n"
    "  end\n"
    "end\n"
    "if added > 0 then redis.call('HSET', KEYS[1], field, string.format('%.0f', mark)) end\n"
    "return is_over and -1 or added\n",

    /* A hash with more than 20,000 fields was made by another program, and to read them all would
     * hold up Redis. A hash without any edge's mark was made by another program, too. */
    [USAGE_SCRIPT_SET] = ASIDE ADD
    "local field = 'hwm:' .. ARGV[1]\n"
    "local found = kind(KEYS[1])\n"
    "local is_broken = found ~= 'none' and\n"
    "  (found ~= 'hash' or redis.call('HLEN', KEYS[1]) > 20000)\n"
    "if found == 'hash' and not is_broken then\n"
    "  local others = false\n"
    "  for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do\n"
    "    others = others or (string.sub(name, 1, 4) == 'hwm:' and name ~= field)\n"
    "  end\n"
    "  local text = redis.call('HGET', KEYS[1], field)\n"
    "  local mark = mark_of(text)\n"
    "  is_broken = (text and not mark) or (not text and not others) or not is_sound('')\n"
    "  for i = 5, #ARGV, 6 do is_broken = is_broken or not is_sound(ARGV[i]) end\n"
    "  if mark and not is_broken then\n"
    "    if ARGV[4] == 'absent' and mark <= tonumber(ARGV[3]) then return 0 end\n"
    "    if ARGV[4] == 'replace' and mark >= tonumber(ARGV[3]) then return 0 end\n"
    "    if others then return -1 end\n"
    "    redis.call('DEL', KEYS[1])\n"
    "  end\n"
    "end\n"
    "if is_broken then\n"
    "  aside(KEYS[1], KEYS[2])\n"
    "  if type(redis.pcall('INCR', KEYS[3])) ~= 'number' then redis.pcall('SET', KEYS[3], 1) end\n"
    "end\n"
    "for i = 5, #ARGV, 6 do add_all(ARGV[i], i + 1) end\n"
    "redis.call('HSET', KEYS[1], field, ARGV[3])\n"
    "if ARGV[2] ~= '0' then redis.call('EXPIREAT', KEYS[1], ARGV[2]) end\n"
    "return is_broken and 2 or 1\n",

    /* A stream whose last id is the highest possible accepts no more entries, so it goes aside,
     * too. */
    [USAGE_SCRIPT_ENTER] = ASIDE
    "local names = {'id', 'tenant', 'key', 'model', 'class', 'finish', 'estimated', 'at_us',\n"
    "  'code', 'input', 'cached', 'output', 'cost_nano'}\n"
    "local moved = 0\n"
    "local function move(which)\n"
    "  aside(KEYS[which], KEYS[which + 2])\n"
    "  moved = moved + 1000\n"
    "end\n"
    "local found = kind(KEYS[2])\n"
    "if found ~= 'hash' and found ~= 'none' then move(2) end\n"
    "found = kind(KEYS[1])\n"
    "if found ~= 'stream' and found ~= 'none' then move(1) end\n"
    "local mark = mark_of(redis.call('HGET', KEYS[2], ARGV[1]))\n"
    "if not mark or mark > tonumber(ARGV[4]) then mark = tonumber(ARGV[2]) end\n"
    "if mark < tonumber(ARGV[3]) then return -1 - mark end\n"
    "local entered = 0\n"
    "for i = 6, #ARGV, #names + 1 do\n"
    "  local sequence = tonumber(ARGV[i])\n"
    "  if sequence > mark then\n"
    "    local entry = {'XADD', KEYS[1], 'MAXLEN', '~', ARGV[5], '*'}\n"
    "    for j, name in ipairs(names) do\n"
    "      entry[#entry + 1] = name\n"
    "      entry[#entry + 1] = ARGV[i + j]\n"
    "    end\n"
    "    local done = redis.pcall(unpack(entry))\n"
    "    if type(done) == 'table' and done.err then\n"
    "      if string.find(done.err, 'XADD', 1, true) or\n"
    "        string.find(done.err, 'exhausted', 1, true) then\n"
    "        move(1)\n"
    "      end\n"
    "      redis.call(unpack(entry))\n"
    "    end\n"
    "    mark = sequence\n"
    "    entered = entered + 1\n"
    "    redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f', mark))\n"
    "  end\n"
    "end\n"
    "return entered + moved\n",

    [USAGE_SCRIPT_MARK] = ASIDE "local found = kind(KEYS[1])\n"
                                "local moved = 0\n"
                                "if found ~= 'hash' and found ~= 'none' then\n"
                                "  aside(KEYS[1], KEYS[2])\n"
                                "  moved = 2\n"
                                "end\n"
                                "return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) + moved\n",

    [USAGE_SCRIPT_READ] = ASIDE
    "local found = kind(KEYS[1])\n"
    "if found ~= 'hash' and found ~= 'none' then\n"
    "  aside(KEYS[1], KEYS[2])\n"
    "  return 'aside'\n"
    "end\n"
    "local text = redis.call('HGET', KEYS[1], ARGV[1])\n"
    "if text and (#text > 40 or not string.find(text, '^[%w%-]+$')) then return 'unreadable' end\n"
    "return text\n",

    [USAGE_SCRIPT_BEAT] = ASIDE
    "local found = kind(KEYS[1])\n"
    "if found ~= 'zset' and found ~= 'none' then aside(KEYS[1], KEYS[4]) end\n"
    "local now = redis.call('TIME')\n"
    "local ms = now[1] * 1000 + math.floor(now[2] / 1000)\n"
    "redis.call('ZADD', KEYS[1], ms, ARGV[1])\n"
    "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms - 10000)\n"
    "local is_there = redis.pcall('HEXISTS', KEYS[2], ARGV[1])\n"
    "local count = kind(KEYS[3]) == 'string' and mark_of(redis.call('GET', KEYS[3])) or 0\n"
    "return (is_there == 1 and 1 or 0) + 2 * (count % 1000000)\n",

    [USAGE_SCRIPT_SWEEP] =
        "local field = 'hwm:' .. ARGV[1]\n"
        "local found = redis.call('SCAN', ARGV[2], 'MATCH', 'banyan:usage:{*', 'COUNT', 500)\n"
        "for _, key in ipairs(found[2]) do\n"
        "  local marks, own = 0, false\n"
        "  local fields = redis.pcall('HKEYS', key)\n"
        "  for _, name in ipairs(fields.err and {} or fields) do\n"
        "    if string.sub(name, 1, 4) == 'hwm:' then\n"
        "      marks = marks + 1\n"
        "      own = own or name == field\n"
        "    end\n"
        "  end\n"
        "  if own and marks == 1 then redis.call('DEL', key) end\n"
        "end\n"
        "return found[1]\n",
};

const char *usage_scripts_text(enum usage_script script)
{
    return texts[script];
}
