#include "auth/usage_redis.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "auth/ledger_ship.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/metrics.h"

enum {
    BEAT_MS = 1000,
    DAY_S = 86400,
    SETS_QUEUED = 64,
    SUMS_MAX = 330, /* of one tenant and day by model and class; more are added to the last one */
    TEXT_BYTES = 256 * 1024, /* all that is made for one command: 330 sums with the longest names */
};

/* Five numbers from ARGV[at] on are added to the fields of all and of a model and class. A sum that
 * would be beyond 64 bits (a cost) stays at the end of them. */
#define SCRIPT_ADD                                                                                 \
    "local function add(name, by)\n"                                                               \
    "  local done = redis.pcall('HINCRBY', KEYS[1], name, by)\n"                                   \
    "  if type(done) == 'number' then return end\n"                                                \
    "  if string.find(done.err, 'overflow', 1, true) then\n"                                       \
    "    redis.call('HSET', KEYS[1], name, '9223372036854775807')\n"                               \
    "  else\n"                                                                                     \
    "    redis.call('HINCRBY', KEYS[1], name, by)\n"                                               \
    "  end\n"                                                                                      \
    "end\n"                                                                                        \
    "local names = {'requests', 'input', 'cached', 'output', 'cost_nano'}\n"                       \
    "local function add_all(tail, at)\n"                                                           \
    "  for i, name in ipairs(names) do\n"                                                          \
    "    add(name, ARGV[at + i - 1])\n"                                                            \
    "    add(name .. tail, ARGV[at + i - 1])\n"                                                    \
    "  end\n"                                                                                      \
    "end\n"

/* KEYS: the day's hash. ARGV: edge, last row of the ledger, then for each row sequence,
 * ":model:class", requests, input, cached, output, cost. -1: there is no such hash, or it has no
 * mark of this edge, or one of rows that the ledger has not (it is an older copy of itself). */
static const char script_add[] = SCRIPT_ADD
    "local field = 'hwm:' .. ARGV[1]\n"
    "local mark = redis.call('HGET', KEYS[1], field)\n"
    "if not mark then return -1 end\n"
    "mark = tonumber(mark)\n"
    "if mark > tonumber(ARGV[2]) then return -1 end\n"
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
    "return added\n";

/* KEYS: the day's hash. ARGV: edge, when it expires (0: never), sequence, mode, then for each sum
 * ":model:class", requests, input, cached, output, cost. With our mark in it, 'absent' leaves it
 * alone, 'replace' makes it anew if the mark is older, 'force' in any case; -1: not where another
 * edge has its part in it. */
static const char script_set[] = SCRIPT_ADD
    "local field = 'hwm:' .. ARGV[1]\n"
    "local mark = redis.call('HGET', KEYS[1], field)\n"
    "if mark then\n"
    "  if ARGV[4] == 'absent' and tonumber(mark) <= tonumber(ARGV[3]) then return 0 end\n"
    "  if ARGV[4] == 'replace' and tonumber(mark) >= tonumber(ARGV[3]) then return 0 end\n"
    "  for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do\n"
    "    if string.sub(name, 1, 4) == 'hwm:' and name ~= field then return -1 end\n"
    "  end\n"
    "  redis.call('DEL', KEYS[1])\n"
    "end\n"
    "for i = 5, #ARGV, 6 do add_all(ARGV[i], i + 1) end\n"
    "redis.call('HSET', KEYS[1], field, ARGV[3])\n"
    "if ARGV[2] ~= '0' then redis.call('EXPIREAT', KEYS[1], ARGV[2]) end\n"
    "return 1\n";

/* KEYS: the set of edges, the marks. ARGV: edge. By Redis's clock, which all edges share. Is our
 * mark there? */
static const char script_beat[] = "local now = redis.call('TIME')\n"
                                  "local ms = now[1] * 1000 + math.floor(now[2] / 1000)\n"
                                  "redis.call('ZADD', KEYS[1], ms, ARGV[1])\n"
                                  "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms - 10000)\n"
                                  "return redis.call('HEXISTS', KEYS[2], ARGV[1])\n";

/* ARGV: edge, SCAN's cursor, which is also the answer ("0": it has been round). Hashes with our
 * mark and no other edge's go; what is of another kind is not ours. */
static const char script_sweep[] =
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
    "return found[1]\n";

static const struct slice key_edges = {"banyan:edges", 12};
static const struct slice key_shipped = {"banyan:shipped", 14};
static const struct slice key_sent = {"banyan:sent", 11};
static const struct slice key_stream = {"banyan:usage", 12};

/* What is done with a hash that is there already. */
enum verify { VERIFY_NONE, VERIFY_ABSENT, VERIFY_REPLACE, VERIFY_FORCE };
static const char *const verify_words[] = {"", "absent", "replace", "force"};

/* Arguments of a command under way; what is printed lives until the next command. */
struct command {
    struct slice arguments[LIMIT_REDIS_ARGUMENTS];
    size_t count;
    size_t used;
    char texts[TEXT_BYTES];
};

struct usage_redis {
    struct redis_link *handle; /* the caller's; what follows is the link's thread's */
    struct redis_link *link;
    struct ledger_ship *ship;
    struct command command;
    struct ledger_row *rows; /* [LIMIT_REDIS_BATCH] */
    uint32_t stream_length;
    uint32_t keep_days;
    char sha_add[REDIS_LINK_SHA_BYTES];
    char sha_set[REDIS_LINK_SHA_BYTES];
    char sha_beat[REDIS_LINK_SHA_BYTES];
    char sha_sweep[REDIS_LINK_SHA_BYTES];
    char sweep[24];       /* cursor; "": nothing is swept */
    char run_id[48];      /* of the process that was checked last */
    int64_t shipped;      /* all rows up to it are in Redis; -1: not known yet */
    int64_t shipped_told; /* what banyan:shipped says; -1: nothing */
    bool has_forgotten;   /* the mark was there, and is not */
    int64_t beat_at_us;
    enum verify verify; /* days from verify_day on are still to be compared */
    int64_t verify_day;
    int64_t verify_then;   /* what `shipped` is behind it, but for VERIFY_ABSENT */
    int64_t verify_shared; /* the same where a hash could not be made anew */
    uint64_t made;         /* hashes made by this comparison */
    uint64_t shared;       /* those with another edge's part in them, left alone */
    int64_t last;          /* row of the ledger, no older than any mark that is sent */
    int64_t sequence;      /* of the commit whose sums are read */
    int64_t day;           /* that is read */
    const char *mode;
    struct ledger_ship_sum rest; /* of the tenant whose sums are gathered: the last one */
    size_t sums;                 /* of that tenant; 0: none are gathered */
    size_t sets;                 /* commands that wait for their reply */
    struct metric *lag_rows;     /* NULL without a registry, as the next ones */
    struct metric *rows_shipped;
    struct metric *hashes_made;
    _Atomic int64_t lag;
};

/* --- commands --- */

static void command_add(struct command *command, struct slice argument)
{
    ASSERT(command->count < LIMIT_REDIS_ARGUMENTS);
    command->arguments[command->count++] = argument;
}

static void command_begin(struct command *command, struct slice name)
{
    command->count = 0;
    command->used = 0;
    command_add(command, name);
}

/* Bounds of what is printed are such that it always fits. */
__attribute__((format(printf, 2, 3))) static void command_print(struct command *command,
                                                                const char *format, ...)
{
    size_t room = TEXT_BYTES - command->used;
    va_list values;
    va_start(values, format);
    int length = vsnprintf(command->texts + command->used, room, format, values);
    va_end(values);
    ASSERT(length >= 0);
    ASSERT((size_t)length < room);
    command_add(command, (struct slice){command->texts + command->used, (size_t)length});
    command->used += (size_t)length + 1;
}

static enum status command_send(struct usage_redis *usage)
{
    return redis_link_queue(usage->link, usage->command.arguments, usage->command.count);
}

/* EVALSHA over a tenant's day, as far as both scripts have it alike. */
static void command_day(struct usage_redis *usage, const char *sha, const char *tenant_id,
                        int64_t day)
{
    struct command *command = &usage->command;
    time_t seconds = (time_t)(day * DAY_S);
    struct tm date = {.tm_year = 70};
    gmtime_r(&seconds, &date);
    command_begin(command, SLICE("EVALSHA"));
    command_add(command, slice_of(sha));
    command_add(command, SLICE("1"));
    command_print(command, "banyan:usage:{%s}:%04d%02d%02d", tenant_id, date.tm_year + 1900,
                  date.tm_mon + 1, date.tm_mday);
    command_add(command, slice_of(ledger_ship_edge(usage->ship)));
}

static void command_numbers(struct command *command, const int64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        command_print(command, "%" PRId64, numbers[i]);
}

/* --- signs of life and the marks --- */

/* Of a row, as Redis has it. */
struct mark {
    int64_t sequence; /* -1: Redis has none */
    uint64_t print;
};
static const struct mark no_mark = {.sequence = -1};

static enum status beat(struct usage_redis *usage)
{
    int64_t now_us = clock_mono_us(clock_system());
    int64_t is_there = 0;
    if (now_us < usage->beat_at_us)
        return STATUS_OK;
    usage->beat_at_us = now_us + BEAT_MS * INT64_C(1000);
    command_begin(&usage->command, SLICE("EVALSHA"));
    command_add(&usage->command, slice_of(usage->sha_beat));
    command_add(&usage->command, SLICE("2"));
    command_add(&usage->command, key_edges);
    command_add(&usage->command, key_shipped);
    command_add(&usage->command, slice_of(ledger_ship_edge(usage->ship)));
    TRY(command_send(usage));
    TRY(redis_link_take_number(usage->link, 0, 1, &is_there));
    usage->has_forgotten |= is_there == 0 && usage->shipped_told >= 0;
    return STATUS_OK;
}

static bool mark_is_due(const struct usage_redis *usage)
{
    return usage->shipped != usage->shipped_told;
}

static enum status mark_queue(struct usage_redis *usage, struct slice key, int64_t sequence)
{
    uint64_t print = 0;
    TRY(ledger_ship_print(usage->ship, sequence, &print));
    command_begin(&usage->command, SLICE("HSET"));
    command_add(&usage->command, key);
    command_add(&usage->command, slice_of(ledger_ship_edge(usage->ship)));
    command_print(&usage->command, "%" PRId64 "-%016" PRIx64, sequence, print);
    return command_send(usage);
}

static enum status mark_take(struct usage_redis *usage, int64_t told)
{
    int64_t is_new = 0;
    TRY(redis_link_take_number(usage->link, 0, 1, &is_new));
    usage->has_forgotten |= is_new == 1 && usage->shipped_told >= 0;
    usage->shipped_told = told;
    return STATUS_OK;
}

/* Only rows whose replies have come: a mark ahead of its rows would lose them. */
static enum status mark_tell(struct usage_redis *usage)
{
    if (!mark_is_due(usage))
        return STATUS_OK;
    TRY(mark_queue(usage, key_shipped, usage->shipped));
    return mark_take(usage, usage->shipped);
}

/* "SEQUENCE-PRINT"; a print of 0 (or none: of an earlier version) is of a row that is not known. */
static bool mark_parse(const char *text, struct mark *out)
{
    const char *at = text;
    *out = (struct mark){0};
    for (; *at >= '0' && *at <= '9' && out->sequence <= LEDGER_SHIP_SEQUENCE_MAX / 10; at++)
        out->sequence = out->sequence * 10 + (*at - '0');
    if (at == text || *at == '\0')
        return at != text;
    if (*at != '-' || strlen(++at) != 16 || strspn(at, "0123456789abcdef") != 16)
        return false;
    out->print = strtoull(at, NULL, 16);
    return true;
}

static enum status mark_read(struct usage_redis *usage, struct slice key, struct mark *out)
{
    char text[48];
    bool is_nil = false;
    command_begin(&usage->command, SLICE("HGET"));
    command_add(&usage->command, key);
    command_add(&usage->command, slice_of(ledger_ship_edge(usage->ship)));
    TRY(command_send(usage));
    TRY(redis_link_take_text(usage->link, text, sizeof text, &is_nil));
    *out = no_mark;
    if (!is_nil && !mark_parse(text, out))
        return redis_link_refuse(usage->link, REDIS_REASON_TYPE);
    return STATUS_OK;
}

/* Whether the ledger has not that row, or another one of its number. */
static enum status mark_is_other(struct usage_redis *usage, const struct mark *mark, int64_t last,
                                 bool *out)
{
    uint64_t own = 0;
    if (mark->sequence > 0)
        TRY(ledger_ship_print(usage->ship, mark->sequence, &own));
    *out = mark->sequence > last || (own != 0 && mark->print != 0 && own != mark->print);
    return STATUS_OK;
}

static enum status lag_look(struct usage_redis *usage)
{
    int64_t first = 0;
    int64_t last = 0;
    TRY(ledger_ship_span(usage->ship, &first, &last));
    int64_t lag = last > usage->shipped ? last - usage->shipped : 0;
    atomic_store(&usage->lag, lag);
    if (usage->lag_rows != NULL)
        metric_set(usage->lag_rows, (double)lag);
    return STATUS_OK;
}

/* --- hashes from roll-ups --- */

static enum status sets_take(struct usage_redis *usage)
{
    for (; usage->sets > 0; usage->sets--) {
        int64_t made = 0;
        TRY(redis_link_take_number(usage->link, -1, 1, &made));
        usage->made += made > 0;
        usage->shared += made < 0;
        if (usage->hashes_made != NULL && made > 0)
            metric_add(usage->hashes_made, 1);
    }
    return STATUS_OK;
}

static void sums_print(struct usage_redis *usage)
{
    const struct ledger_ship_sum *sum = &usage->rest;
    const int64_t numbers[] = {sum->requests, sum->prompt_tokens, sum->cached_tokens,
                               sum->completion_tokens, sum->cost_nano};
    command_print(&usage->command, ":%s:%s", sum->model, sum->service_class);
    command_numbers(&usage->command, numbers, 5);
}

/* The sums of a tenant are complete. */
static enum status sums_send(struct usage_redis *usage)
{
    if (usage->sums == 0)
        return STATUS_OK;
    sums_print(usage);
    usage->sums = 0;
    TRY(command_send(usage));
    return ++usage->sets == SETS_QUEUED ? sets_take(usage) : STATUS_OK;
}

static enum status sums_take(void *context, const struct ledger_ship_sum *sum)
{
    struct usage_redis *usage = context;
    struct ledger_ship_sum *rest = &usage->rest;
    if (usage->sums > 0 && strcmp(rest->tenant_id, sum->tenant_id) != 0)
        TRY(sums_send(usage));
    if (usage->sums == SUMS_MAX) {
        rest->requests += sum->requests;
        rest->prompt_tokens += sum->prompt_tokens;
        rest->cached_tokens += sum->cached_tokens;
        rest->completion_tokens += sum->completion_tokens;
        if (__builtin_add_overflow(rest->cost_nano, sum->cost_nano, &rest->cost_nano))
            rest->cost_nano = INT64_MAX;
        return STATUS_OK;
    }
    if (usage->sums == 0) {
        int64_t end_s = (usage->day + 1 + usage->keep_days) * DAY_S;
        const int64_t numbers[] = {usage->keep_days != 0 ? end_s : 0, usage->sequence};
        command_day(usage, usage->sha_set, sum->tenant_id, usage->day);
        command_numbers(&usage->command, numbers, 2);
        command_add(&usage->command, slice_of(usage->mode));
    } else {
        sums_print(usage);
    }
    *rest = *sum;
    usage->sums++;
    return STATUS_OK;
}

/* Makes the hashes of a day, of one tenant or ("") all, from a commit's roll-ups. */
static enum status make_day(struct usage_redis *usage, int64_t day, const char *tenant_id)
{
    usage->day = day;
    usage->sums = 0;
    TRY(ledger_ship_sums(usage->ship, day, tenant_id, usage, sums_take));
    return sums_send(usage);
}

/* --- comparing --- */

static void verify_begin(struct usage_redis *usage, enum verify verify, int64_t then,
                         int64_t shared)
{
    int64_t today = clock_wall_us(clock_system()) / (DAY_S * INT64_C(1000000));
    int64_t oldest = usage->keep_days != 0 ? today - usage->keep_days : 0;
    usage->verify = verify;
    usage->verify_day = oldest > 0 ? oldest : 0;
    usage->verify_then = then;
    usage->verify_shared = shared;
    snprintf(usage->sweep, sizeof usage->sweep, "%s", verify == VERIFY_FORCE ? "0" : "");
    usage->made = 0;
    usage->shared = 0;
}

/* One part of Redis's keys. */
static enum status turn_sweep(struct usage_redis *usage)
{
    bool is_nil = false;
    command_begin(&usage->command, SLICE("EVALSHA"));
    command_add(&usage->command, slice_of(usage->sha_sweep));
    command_add(&usage->command, SLICE("0"));
    command_add(&usage->command, slice_of(ledger_ship_edge(usage->ship)));
    command_print(&usage->command, "%s", usage->sweep);
    TRY(command_send(usage));
    TRY(redis_link_take_text(usage->link, usage->sweep, sizeof usage->sweep, &is_nil));
    if (strcmp(usage->sweep, "0") == 0)
        usage->sweep[0] = '\0';
    return STATUS_OK;
}

static enum status sent_take(struct usage_redis *usage)
{
    int64_t is_new = 0;
    return redis_link_take_number(usage->link, 0, 1, &is_new);
}

static enum status sent_tell(struct usage_redis *usage, int64_t sequence)
{
    TRY(mark_queue(usage, key_sent, sequence));
    return sent_take(usage);
}

/* One day, read as of one commit. */
static enum status verify_step(struct usage_redis *usage, bool *is_done)
{
    int64_t day = 0;
    TRY(ledger_ship_begin(usage->ship, &usage->sequence));
    usage->mode = verify_words[usage->verify];
    enum status status = STATUS_OK;
    if (usage->verify != VERIFY_FORCE) /* which begins again until it has been through */
        status = sent_tell(usage, usage->sequence);
    if (status == STATUS_OK)
        status = ledger_ship_day(usage->ship, usage->verify_day, &day);
    *is_done = day == INT64_MAX;
    if (status == STATUS_OK && !*is_done)
        status = make_day(usage, day, "");
    ledger_ship_end(usage->ship);
    usage->verify_day = day + !*is_done;
    TRY(status);
    return sets_take(usage);
}

static enum status turn_verify(struct usage_redis *usage)
{
    bool is_done = false;
    if (usage->sweep[0] != '\0')
        return turn_sweep(usage);
    TRY(verify_step(usage, &is_done));
    if (!is_done)
        return STATUS_OK;
    if (usage->verify == VERIFY_FORCE) /* what was sent before is in no hash any more */
        TRY(sent_tell(usage, usage->sequence));
    LOG(usage->shared == 0 ? LOG_INFO : LOG_WARN, "redis_compared",
        LOG_TEXT("way", verify_words[usage->verify]), LOG_NUMBER("made", usage->made),
        LOG_NUMBER("shared", usage->shared));
    if (usage->verify != VERIFY_ABSENT)
        usage->shipped = usage->shared == 0 ? usage->verify_then : usage->verify_shared;
    usage->verify = VERIFY_NONE;
    snprintf(usage->run_id, sizeof usage->run_id, "%s", redis_link_server(usage->link)->run_id);
    return STATUS_OK;
}

/* --- rows --- */

static int64_t row_day(const struct ledger_row *row)
{
    return row->at_us / (DAY_S * INT64_C(1000000));
}

/* Rows of one batch of the same tenant and day; they stand where the first of them does. */
struct batch {
    size_t count;                       /* of usage->rows */
    size_t groups;                      /* of `first` */
    size_t first[LIMIT_REDIS_BATCH];    /* rows that stand for a group */
    size_t group_of[LIMIT_REDIS_BATCH]; /* of each row */
};

static void batch_group(const struct usage_redis *usage, struct batch *batch)
{
    batch->groups = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct ledger_row *row = &usage->rows[i];
        size_t group = 0;
        while (group < batch->groups) {
            const struct ledger_row *first = &usage->rows[batch->first[group]];
            if (row_day(first) == row_day(row) && strcmp(first->tenant_id, row->tenant_id) == 0)
                break;
            group++;
        }
        if (group == batch->groups)
            batch->first[batch->groups++] = i;
        batch->group_of[i] = group;
    }
}

static enum status batch_queue_group(struct usage_redis *usage, const struct batch *batch,
                                     size_t group)
{
    const struct ledger_row *first = &usage->rows[batch->first[group]];
    command_day(usage, usage->sha_add, first->tenant_id, row_day(first));
    command_numbers(&usage->command, &usage->last, 1);
    for (size_t i = batch->first[group]; i < batch->count; i++) {
        const struct ledger_row *row = &usage->rows[i];
        if (batch->group_of[i] != group)
            continue;
        const int64_t numbers[] = {1, row->prompt_tokens, row->cached_tokens,
                                   row->completion_tokens, row->cost_nano};
        command_numbers(&usage->command, &row->sequence, 1);
        command_print(&usage->command, ":%s:%s", row->model, row->service_class);
        command_numbers(&usage->command, numbers, 5);
    }
    return command_send(usage);
}

static enum status batch_queue_entry(struct usage_redis *usage, const struct ledger_row *row)
{
    struct command *command = &usage->command;
    command_begin(command, SLICE("XADD"));
    command_add(command, key_stream);
    command_add(command, SLICE("MAXLEN"));
    command_add(command, SLICE("~"));
    command_print(command, "%" PRIu32, usage->stream_length);
    command_add(command, SLICE("*"));
    command_add(command, SLICE("id"));
    command_print(command, "%s-%" PRId64, ledger_ship_edge(usage->ship), row->sequence);
    const struct {
        const char *name;
        const char *text;
    } texts[] = {{"tenant", row->tenant_id}, {"key", row->key_id},
                 {"model", row->model},      {"class", row->service_class},
                 {"finish", row->finish},    {"estimated", row->is_estimated ? "1" : "0"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        command_add(command, slice_of(texts[i].name));
        command_add(command, slice_of(texts[i].text));
    }
    const struct {
        const char *name;
        int64_t number;
    } numbers[] = {{"at_us", row->at_us},
                   {"code", row->http_code},
                   {"input", row->prompt_tokens},
                   {"cached", row->cached_tokens},
                   {"output", row->completion_tokens},
                   {"cost_nano", row->cost_nano}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        command_add(command, slice_of(numbers[i].name));
        command_numbers(command, &numbers[i].number, 1);
    }
    return command_send(usage);
}

/* The hashes that a batch found missing; they hold its rows then, too. */
static enum status batch_make(struct usage_redis *usage, const struct batch *batch,
                              const bool *is_absent)
{
    TRY(ledger_ship_begin(usage->ship, &usage->sequence));
    enum status status = sent_tell(usage, usage->sequence);
    usage->mode = verify_words[VERIFY_FORCE]; /* one without our mark is not there either way */
    for (size_t i = 0; i < batch->groups && status == STATUS_OK; i++) {
        const struct ledger_row *first = &usage->rows[batch->first[i]];
        if (is_absent[i])
            status = make_day(usage, row_day(first), first->tenant_id);
    }
    ledger_ship_end(usage->ship);
    TRY(status);
    return sets_take(usage);
}

static enum status batch_send(struct usage_redis *usage, const struct batch *batch)
{
    int64_t told = usage->shipped;
    bool is_due = mark_is_due(usage);
    TRY(mark_queue(usage, key_sent, usage->last)); /* before them */
    if (is_due)
        TRY(mark_queue(usage, key_shipped, told));
    for (size_t i = 0; i < batch->groups; i++)
        TRY(batch_queue_group(usage, batch, i));
    for (size_t i = 0; i < batch->count && usage->stream_length != 0; i++)
        TRY(batch_queue_entry(usage, &usage->rows[i]));
    TRY(sent_take(usage));
    if (is_due)
        TRY(mark_take(usage, told));
    bool is_absent[LIMIT_REDIS_BATCH] = {false};
    bool must_make = false;
    for (size_t i = 0; i < batch->groups; i++) {
        int64_t added = 0;
        TRY(redis_link_take_number(usage->link, -1, LIMIT_REDIS_BATCH, &added));
        is_absent[i] = added < 0;
        must_make = must_make || is_absent[i];
    }
    for (size_t i = 0; i < batch->count && usage->stream_length != 0; i++) {
        char entry[64];
        bool is_nil = false;
        TRY(redis_link_take_text(usage->link, entry, sizeof entry, &is_nil));
    }
    return must_make ? batch_make(usage, batch, is_absent) : STATUS_OK;
}

static enum status turn_rows(struct usage_redis *usage, bool *has_more)
{
    struct batch batch;
    bool is_gapped = false;
    TRY(ledger_ship_rows(usage->ship, usage->shipped, usage->rows, LIMIT_REDIS_BATCH, &batch.count,
                         &is_gapped));
    if (is_gapped) { /* those rows are in the roll-ups alone */
        LOG(LOG_WARN, "redis_rows_gone", LOG_NUMBER("from", usage->shipped + 1),
            LOG_NUMBER("to", usage->rows[0].sequence - 1));
        int64_t then = usage->rows[0].sequence - 1;
        verify_begin(usage, VERIFY_REPLACE, then, then);
        return STATUS_OK;
    }
    *has_more = batch.count > 0;
    if (batch.count == 0)
        return mark_tell(usage);
    int64_t first = 0;
    TRY(ledger_ship_span(usage->ship, &first, &usage->last));
    batch_group(usage, &batch);
    TRY(batch_send(usage, &batch));
    usage->shipped = usage->rows[batch.count - 1].sequence;
    if (usage->rows_shipped != NULL)
        metric_add(usage->rows_shipped, (int64_t)batch.count);
    return STATUS_OK;
}

/* --- the link's callbacks --- */

/* What Redis knows decides. Nothing (it is new, restarted empty, was flushed, lost its mark):
 * hashes are made from the roll-ups, and the stream gets the last rows again. More than there is,
 * or another row of that number, when the ledger's file is an older copy of itself: the same,
 * whatever the hashes say; what was sent tells of the rows behind the mark. Else rows go on from
 * there, and hashes of a process that was not compared yet are looked for. */
static enum status compare(struct usage_redis *usage, const struct mark *told,
                           const struct mark *sent)
{
    int64_t first = 0;
    int64_t last = 0;
    bool is_told_other = false;
    bool is_sent_other = false;
    TRY(ledger_ship_span(usage->ship, &first, &last));
    TRY(mark_is_other(usage, told, last, &is_told_other));
    TRY(mark_is_other(usage, sent, last, &is_sent_other));
    bool is_other = is_told_other || is_sent_other;
    int64_t mark = told->sequence;
    usage->has_forgotten = false;
    usage->verify = VERIFY_NONE;
    usage->shipped_told = mark;
    usage->shipped = mark;
    if (is_other)
        LOG(LOG_ERROR, "redis_ahead", LOG_NUMBER("redis", mark), LOG_NUMBER("sent", sent->sequence),
            LOG_NUMBER("ledger", last));
    if (mark < 0) {
        int64_t all = first > 0 ? first - 1 : 0;
        int64_t from = last - usage->stream_length;
        usage->shipped = last; /* none of them is behind until it is compared */
        verify_begin(usage, is_other ? VERIFY_FORCE : VERIFY_REPLACE, from > all ? from : all, all);
    } else if (is_other) {
        int64_t then = is_told_other ? last : mark; /* the stream has them up to there */
        verify_begin(usage, VERIFY_FORCE, then, then);
    } else if (strcmp(usage->run_id, redis_link_server(usage->link)->run_id) != 0) {
        verify_begin(usage, VERIFY_ABSENT, mark, mark);
    }
    return STATUS_OK;
}

static enum status on_connected(void *context, struct redis_link *link)
{
    struct usage_redis *usage = context;
    const struct redis_link_server *server = redis_link_server(link);
    usage->link = link;
    usage->beat_at_us = 0;
    usage->sets = 0;
    usage->shipped_told = -1;
    TRY(redis_link_load(link, script_add, usage->sha_add));
    TRY(redis_link_load(link, script_set, usage->sha_set));
    TRY(redis_link_load(link, script_beat, usage->sha_beat));
    TRY(redis_link_load(link, script_sweep, usage->sha_sweep));
    TRY(beat(usage)); /* a write: replicas, full and unsaved ones refuse it */
    if (server->has_maxmemory && strcmp(server->policy, "noeviction") != 0 &&
        strcmp(usage->run_id, server->run_id) != 0)
        LOG(LOG_WARN, "redis_may_evict", LOG_TEXT("policy", server->policy),
            LOG_TEXT("mend", "set maxmemory-policy noeviction: usage of other keys would go"));
    struct mark told, sent;
    TRY(mark_read(usage, key_shipped, &told));
    TRY(mark_read(usage, key_sent, &sent));
    return compare(usage, &told, &sent);
}

/* Missing hashes can be made beside rows that go on; else rows wait for what they are added to. */
static bool verify_is_first(const struct usage_redis *usage)
{
    return usage->verify == VERIFY_REPLACE || usage->verify == VERIFY_FORCE;
}

static enum status on_turn(void *context, struct redis_link *link, bool *has_more)
{
    struct usage_redis *usage = context;
    (void)link;
    TRY(beat(usage));
    if (usage->has_forgotten) {
        LOG(LOG_WARN, "redis_forgot", LOG_NUMBER("rows", usage->shipped));
        usage->run_id[0] = '\0';
        TRY(compare(usage, &no_mark, &no_mark));
    }
    *has_more = false;
    if (!verify_is_first(usage))
        TRY(turn_rows(usage, has_more));
    if (usage->verify != VERIFY_NONE && !*has_more) {
        TRY(turn_verify(usage));
        *has_more = true;
    }
    return lag_look(usage);
}

static void on_down(void *context)
{
    (void)lag_look(context); /* a ledger that cannot be read is told of by the ledger */
}

static void on_closing(void *context, struct redis_link *link)
{
    struct usage_redis *usage = context;
    int64_t removed = 0;
    if (!verify_is_first(usage) && mark_tell(usage) != STATUS_OK)
        return;
    command_begin(&usage->command, SLICE("ZREM"));
    command_add(&usage->command, key_edges);
    command_add(&usage->command, slice_of(ledger_ship_edge(usage->ship)));
    if (command_send(usage) == STATUS_OK)
        (void)redis_link_take_number(link, 0, 1, &removed); /* it is dropped in 10 s anyway */
}

/* --- open and close --- */

/* What alerts read is there without a Redis, too. */
static struct metric *open_metrics_of_all(struct metrics *registry, bool is_configured)
{
    metric_set(metrics_get(registry, METRIC_GAUGE, "banyan_redis_configured",
                           "1 when usage is to go to Redis.", "", NULL, 0),
               is_configured);
    (void)redis_link_metric_up(registry);
    return metrics_get(registry, METRIC_GAUGE, "banyan_redis_ship_lag_rows",
                       "Ledger rows that are committed and not yet in Redis.", "", NULL, 0);
}

static void open_metrics(struct usage_redis *usage, struct metrics *registry)
{
    if (registry == NULL)
        return;
    usage->lag_rows = open_metrics_of_all(registry, true);
    usage->rows_shipped = metrics_get(registry, METRIC_COUNTER, "banyan_redis_rows_total",
                                      "Ledger rows sent to Redis.", "", NULL, 0);
    usage->hashes_made =
        metrics_get(registry, METRIC_COUNTER, "banyan_redis_days_made_total",
                    "Usage of a tenant and day that was written from the roll-ups.", "", NULL, 0);
}

static enum status open_parts(struct usage_redis *usage, const struct usage_redis_options *options)
{
    struct redis_link_options link = {.password_file = options->password_file,
                                      .metrics = options->metrics,
                                      .turn_ms = options->turn_ms,
                                      .command_ms = options->command_ms,
                                      .context = usage,
                                      .connected = on_connected,
                                      .turn = on_turn,
                                      .down = on_down,
                                      .closing = on_closing};
    int64_t first = 0;
    TRY(redis_url_parse(&link.url, options->url));
    usage->stream_length = options->stream_length;
    usage->keep_days = options->keep_days;
    usage->rows = mem_zalloc(LIMIT_REDIS_BATCH, sizeof *usage->rows);
    if (usage->rows == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for usage in Redis");
    TRY(ledger_ship_open(&usage->ship, options->ledger_path));
    /* Until Redis says otherwise, what was there before is taken for shipped. */
    TRY(ledger_ship_span(usage->ship, &first, &usage->shipped));
    open_metrics(usage, options->metrics);
    return redis_link_open(&usage->handle, &link);
}

static void close_parts(struct usage_redis *usage)
{
    ledger_ship_close(usage->ship);
    mem_free(usage->rows);
    mem_free(usage);
}

enum status usage_redis_open(struct usage_redis **out, const struct usage_redis_options *options)
{
    *out = NULL;
    if (options->url[0] == '\0') {
        if (options->metrics != NULL)
            (void)open_metrics_of_all(options->metrics, false);
        return STATUS_OK;
    }
    struct usage_redis *usage = mem_zalloc(1, sizeof *usage);
    if (usage == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for usage in Redis");
    enum status status = open_parts(usage, options);
    if (status != STATUS_OK) {
        close_parts(usage);
        return status;
    }
    *out = usage;
    return STATUS_OK;
}

void usage_redis_close(struct usage_redis *usage)
{
    if (usage == NULL)
        return;
    redis_link_close(usage->handle);
    close_parts(usage);
}

const char *usage_redis_word(const struct usage_redis *usage)
{
    if (usage == NULL)
        return "off";
    return redis_link_is_up(usage->handle) ? "up" : "down";
}

int64_t usage_redis_lag(const struct usage_redis *usage)
{
    return atomic_load(&usage->lag);
}

enum redis_reason usage_redis_reason(const struct usage_redis *usage)
{
    return redis_link_reason(usage->handle);
}
