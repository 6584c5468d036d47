#include "auth/ledger/usage_redis.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "auth/ledger/ledger_ship.h"
#include "auth/ledger/usage_scripts.h"
#include "auth/ledger/usage_waiting.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/metrics.h"

enum {
    BEAT_MS = 1000,
    COMPARE_MS = 10000, /* between two comparisons that keys moved by another edge cause */
    TELL_S = 60,        /* at most TELL_LINES log lines about keys in this time */
    TELL_LINES = 10,
    STREAM_RETRY_MS = 2000,
    ENTER_ROWS = LIMIT_REDIS_BATCH / 2, /* rows in one script that enters rows into the stream */
    DAY_S = 86400,
    DAY_NAME_BYTES = LIMIT_ID_BYTES + 32,
    SETS_QUEUED = 64,
    /* Sums of one tenant and day, by model and class. The sums that follow are added to the last
     * one. */
    SUMS_MAX = 330,
    TEXT_BYTES = 256 * 1024, /* all texts of one command: 330 sums with the longest names */
};

_Static_assert(6 + ENTER_ROWS * (1 + USAGE_SCRIPTS_ENTRY_VALUES) + 8 <= LIMIT_REDIS_ARGUMENTS,
               "the rows of a script fit into one command");

/* The keys that all edges share. Each also has a name under which it goes aside. */
enum key { KEY_EDGES, KEY_SHIPPED, KEY_SENT, KEY_STREAM, KEY_STREAMED, KEY_ASIDES, KEYS };
static const char *const key_names[KEYS] = {"banyan:edges", "banyan:shipped",  "banyan:sent",
                                            "banyan:usage", "banyan:streamed", "banyan:asides"};

/* What a comparison does with a hash that exists. */
enum verify { VERIFY_NONE, VERIFY_ABSENT, VERIFY_REPLACE, VERIFY_FORCE };
static const char *const verify_words[] = {"", "absent", "replace", "force"};

/* The arguments of the present command. Printed texts live until the next command. */
struct command {
    struct slice arguments[LIMIT_REDIS_ARGUMENTS];
    size_t count;
    size_t used;
    char texts[TEXT_BYTES];
};

struct usage_redis {
    struct redis_link *handle; /* of the caller; the members below belong to the link's thread */
    struct redis_link *link;
    struct ledger_ship *ship;
    struct command command;
    struct ledger_row *rows; /* [LIMIT_REDIS_BATCH] */
    uint32_t stream_length;
    uint32_t keep_days;
    char sha[USAGE_SCRIPTS][REDIS_LINK_SHA_BYTES];
    struct usage_waiting waiting;
    int64_t streamed; /* all rows up to this one are in the stream */
    /* Redis has refused the stream, and the next try is not before this time. 0: not refused. */
    int64_t stream_retry_us;
    /* how many keys of all edges went aside, as of the last beat; -1: not known yet */
    int64_t asides;
    int64_t compare_after_us;
    bool must_compare;    /* another edge moved a key that may have held this edge's usage */
    int64_t tell_from_us; /* when the present minute of log lines began */
    uint32_t told;        /* lines logged since then */
    uint32_t untold;
    char sweep[24];       /* the cursor of a sweep; "": no sweep */
    char run_id[48];      /* the Redis process that was compared last */
    int64_t shipped;      /* all rows up to this one are in Redis; -1: not known yet */
    int64_t shipped_told; /* the mark in banyan:shipped; -1: none */
    bool has_forgotten;   /* Redis had the mark and has lost it */
    int64_t beat_at_us;
    enum verify verify; /* the present comparison; days from verify_day on are left */
    int64_t verify_day;
    int64_t verify_then;   /* the value of `shipped` after it, except for VERIFY_ABSENT */
    int64_t verify_shared; /* the same when some hash could not be made again */
    uint64_t made;         /* hashes made by this comparison */
    uint64_t shared;       /* hashes left unchanged because another edge has added to them */
    int64_t last;          /* the ledger's last row; no mark that is sent is later */
    int64_t sequence;      /* the last row of the commit whose sums are read */
    int64_t since;         /* a hash that is refused now may lack rows from this one on */
    int64_t day;           /* the day that is read */
    const char *mode;
    struct ledger_ship_sum rest; /* the last sum of the tenant whose sums are gathered */
    size_t sums;                 /* the number of sums gathered for that tenant */
    struct set_target {
        char tenant_id[LIMIT_ID_BYTES];
        int64_t day;
    } targets[SETS_QUEUED];  /* the hashes of the commands that wait for their reply */
    size_t sets;             /* the number of these */
    struct metric *lag_rows; /* this and the next four are NULL without a registry */
    struct metric *rows_shipped;
    struct metric *hashes_made;
    struct metric *keys_aside;
    struct metric *keys_waiting;
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

/* Prints an argument. All texts have bounds, so they always fit. */
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

static void command_script(struct usage_redis *usage, enum usage_script script, int keys)
{
    command_begin(&usage->command, SLICE("EVALSHA"));
    command_add(&usage->command, slice_of(usage->sha[script]));
    command_print(&usage->command, "%d", keys);
}

static void command_key(struct usage_redis *usage, enum key key)
{
    command_add(&usage->command, slice_of(key_names[key]));
}

/* banyan:usage → banyan:aside:usage */
static void command_aside(struct usage_redis *usage, const char *name)
{
    command_print(&usage->command, "banyan:aside:%s", name + strlen("banyan:"));
}

static void command_key_aside(struct usage_redis *usage, enum key key)
{
    command_aside(usage, key_names[key]);
}

static void command_edge(struct usage_redis *usage)
{
    command_add(&usage->command, slice_of(ledger_ship_edge(usage->ship)));
}

/* Begins a script that reads or writes this edge's mark in a key. */
static void command_mark(struct usage_redis *usage, enum usage_script script, enum key key)
{
    command_script(usage, script, 2);
    command_key(usage, key);
    command_key_aside(usage, key);
    command_edge(usage);
}

/* Writes the name of the hash of a tenant's day. */
static void day_name(char out[DAY_NAME_BYTES], const char *tenant_id, int64_t day)
{
    char text[16] = "";
    time_t seconds = (time_t)(day * DAY_S);
    struct tm date = {.tm_year = 70};
    gmtime_r(&seconds, &date);
    if (strftime(text, sizeof text, "%Y%m%d", &date) == 0)
        text[0] = '\0';
    snprintf(out, DAY_NAME_BYTES, "banyan:usage:{%s}:%s", tenant_id, text);
}

/* Begins a script for the hash of a tenant's day, with the arguments that both scripts share. */
static void command_day(struct usage_redis *usage, enum usage_script script, const char *tenant_id,
                        int64_t day)
{
    char name[DAY_NAME_BYTES];
    day_name(name, tenant_id, day);
    command_script(usage, script, script == USAGE_SCRIPT_SET ? 3 : 1);
    command_print(&usage->command, "%s", name);
    if (script == USAGE_SCRIPT_SET) {
        command_aside(usage, name);
        command_key(usage, KEY_ASIDES);
    }
    command_edge(usage);
}

static void command_numbers(struct command *command, const int64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        command_print(command, "%" PRId64, numbers[i]);
}

/* --- keys that are not as they should be --- */

/* Limits log lines about keys, because another program could cause one line a second for each
 * tenant. */
static bool tell_may(struct usage_redis *usage)
{
    int64_t now_us = clock_mono_us(clock_system());
    if (usage->tell_from_us == 0 || now_us - usage->tell_from_us >= TELL_S * INT64_C(1000000)) {
        if (usage->untold > 0)
            LOG(LOG_WARN, "redis_keys_untold", LOG_NUMBER("lines", usage->untold));
        usage->tell_from_us = now_us;
        usage->told = 0;
        usage->untold = 0;
    }
    bool may = usage->told < TELL_LINES;
    usage->told += may ? 1 : 0;
    usage->untold += may ? 0 : 1;
    return may;
}

static void tell_aside(struct usage_redis *usage, const char *key)
{
    if (usage->keys_aside != NULL)
        metric_add(usage->keys_aside, 1);
    if (tell_may(usage))
        LOG(LOG_WARN, "redis_key_aside", LOG_TEXT("key", key),
            LOG_TEXT("mend", "another program wrote there; what it wrote is under banyan:aside: "
                             "for seven days, the key was made anew from the ledger"));
}

static void waiting_show(struct usage_redis *usage)
{
    uint32_t count = usage_waiting_count(&usage->waiting) + (usage->stream_retry_us != 0);
    if (usage->keys_waiting != NULL)
        metric_set(usage->keys_waiting, count);
}

/* Notes that Redis refuses the hash of a tenant's day. Its rows wait; other rows do not. */
static void day_refused(struct usage_redis *usage, const char *tenant_id, int64_t day,
                        int64_t since, enum redis_reason reason)
{
    char name[DAY_NAME_BYTES];
    bool is_new =
        usage_waiting_add(&usage->waiting, tenant_id, day, since, clock_mono_us(clock_system()));
    day_name(name, tenant_id, day);
    if (is_new && tell_may(usage))
        LOG(LOG_WARN, "redis_key_waits", LOG_TEXT("key", name),
            LOG_TEXT("reason", redis_link_reason_word(reason)));
    waiting_show(usage);
}

/* Notes that the hash of a tenant's day is complete. */
static void day_made(struct usage_redis *usage, const char *tenant_id, int64_t day, bool is_aside)
{
    char name[DAY_NAME_BYTES];
    day_name(name, tenant_id, day);
    bool has_waited = usage_waiting_has(&usage->waiting, tenant_id, day);
    if (is_aside)
        tell_aside(usage, name);
    if (has_waited || is_aside)
        usage_waiting_made(&usage->waiting, tenant_id, day, clock_mono_us(clock_system()));
    if (has_waited && tell_may(usage))
        LOG(LOG_INFO, "redis_key_mended", LOG_TEXT("key", name));
    waiting_show(usage);
}

/* --- signs of life and the marks --- */

/* The mark of a row, as Redis has it. */
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
    command_script(usage, USAGE_SCRIPT_BEAT, 4);
    command_key(usage, KEY_EDGES);
    command_key(usage, KEY_SHIPPED);
    command_key(usage, KEY_ASIDES);
    command_key_aside(usage, KEY_EDGES);
    command_edge(usage);
    TRY(command_send(usage));
    TRY(redis_link_take_number(usage->link, 0, 2 * INT64_C(1000000), &is_there));
    usage->has_forgotten |= (is_there & 1) == 0 && usage->shipped_told >= 0;
    usage->must_compare |= usage->asides >= 0 && usage->asides != is_there >> 1;
    usage->asides = is_there >> 1;
    return STATUS_OK;
}

/* Returns the mark to be written to banyan:shipped. It counts only rows whose replies have come,
 * for their hash and for the stream, because rows below the mark are not sent again. -1: there is
 * no such row. */
static int64_t mark_wanted(const struct usage_redis *usage)
{
    int64_t wanted = usage->shipped;
    int64_t held = usage_waiting_held(&usage->waiting);
    if (usage->stream_length != 0 && usage->streamed < wanted)
        wanted = usage->streamed;
    return held < wanted ? held : wanted;
}

static bool mark_is_due(const struct usage_redis *usage)
{
    int64_t wanted = mark_wanted(usage);
    return wanted >= 0 && wanted != usage->shipped_told;
}

static enum status mark_queue(struct usage_redis *usage, enum key key, int64_t sequence)
{
    uint64_t print = 0;
    TRY(ledger_ship_print(usage->ship, sequence, &print));
    command_mark(usage, USAGE_SCRIPT_MARK, key);
    command_print(&usage->command, "%" PRId64 "-%016" PRIx64, sequence, print);
    return command_send(usage);
}

static enum status mark_take_of(struct usage_redis *usage, enum key key, bool *is_new)
{
    int64_t answer = 0;
    TRY(redis_link_take_number(usage->link, 0, 3, &answer));
    if ((answer & 2) != 0)
        tell_aside(usage, key_names[key]);
    *is_new = (answer & 1) != 0;
    return STATUS_OK;
}

static enum status mark_take(struct usage_redis *usage, int64_t told)
{
    bool is_new = false;
    TRY(mark_take_of(usage, KEY_SHIPPED, &is_new));
    usage->has_forgotten |= is_new && usage->shipped_told >= 0;
    usage->shipped_told = told;
    return STATUS_OK;
}

static enum status mark_tell(struct usage_redis *usage)
{
    int64_t wanted = mark_wanted(usage);
    if (!mark_is_due(usage))
        return STATUS_OK;
    TRY(mark_queue(usage, KEY_SHIPPED, wanted));
    return mark_take(usage, wanted);
}

/* Parses "SEQUENCE-PRINT". A print of 0, or no print (from an earlier version), means that the row
 * is not known. */
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

/* Reads a mark. An unreadable mark counts as none, and then everything is compared with the
 * ledger. */
static enum status mark_read(struct usage_redis *usage, enum key key, struct mark *out)
{
    char text[48];
    bool is_nil = false;
    command_mark(usage, USAGE_SCRIPT_READ, key);
    TRY(command_send(usage));
    TRY(redis_link_take_text(usage->link, text, sizeof text, &is_nil));
    *out = no_mark;
    if (is_nil || mark_parse(text, out))
        return STATUS_OK;
    *out = no_mark;
    if (strcmp(text, "aside") == 0)
        tell_aside(usage, key_names[key]);
    else if (tell_may(usage))
        LOG(LOG_WARN, "redis_mark_unreadable", LOG_TEXT("key", key_names[key]));
    return STATUS_OK;
}

/* Whether the ledger lacks the row of a mark, or has another row with its number. */
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

/* Handles a hash that could not be made again because another edge has added to it. Rows that it
 * may lack are sent again; its mark skips those that it has. */
static void set_shared(struct usage_redis *usage, const struct set_target *target)
{
    int64_t first = 0;
    int64_t last = 0;
    const struct usage_waiting_entry *entry =
        usage_waiting_find(&usage->waiting, target->tenant_id, target->day);
    if (entry == NULL)
        return;
    if (ledger_ship_span(usage->ship, &first, &last) == STATUS_OK) {
        int64_t from = entry->since > first ? entry->since - 1 : first > 0 ? first - 1 : 0;
        usage->shipped = from < usage->shipped ? from : usage->shipped;
    }
    day_made(usage, target->tenant_id, target->day, false);
}

static enum status sets_take(struct usage_redis *usage)
{
    size_t count = usage->sets;
    usage->sets = 0;
    for (size_t i = 0; i < count; i++) {
        const struct set_target *target = &usage->targets[i];
        int64_t made = 0;
        enum redis_reason reason = REDIS_REASON_NONE;
        TRY(redis_link_take_outcome(usage->link, -1, 2, &made, &reason));
        if (reason != REDIS_REASON_NONE) {
            day_refused(usage, target->tenant_id, target->day, usage->since, reason);
            continue;
        }
        usage->made += made > 0;
        usage->shared += made < 0;
        if (usage->hashes_made != NULL && made > 0)
            metric_add(usage->hashes_made, 1);
        if (made < 0)
            set_shared(usage, target);
        else
            day_made(usage, target->tenant_id, target->day, made == 2);
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

/* Sends the sums of a tenant, which are complete. */
static enum status sums_send(struct usage_redis *usage)
{
    if (usage->sums == 0)
        return STATUS_OK;
    struct set_target *target = &usage->targets[usage->sets];
    snprintf(target->tenant_id, sizeof target->tenant_id, "%s", usage->rest.tenant_id);
    target->day = usage->day;
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
        command_day(usage, USAGE_SCRIPT_SET, sum->tenant_id, usage->day);
        command_numbers(&usage->command, numbers, 2);
        command_add(&usage->command, slice_of(usage->mode));
    } else {
        sums_print(usage);
    }
    *rest = *sum;
    usage->sums++;
    return STATUS_OK;
}

/* Makes the hashes of a day, for one tenant or ("") for all, from the sums as of one commit. */
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

/* Sweeps one part of Redis's keys. */
static enum status turn_sweep(struct usage_redis *usage)
{
    bool is_nil = false;
    command_script(usage, USAGE_SCRIPT_SWEEP, 0);
    command_edge(usage);
    command_print(&usage->command, "%s", usage->sweep);
    TRY(command_send(usage));
    TRY(redis_link_take_text(usage->link, usage->sweep, sizeof usage->sweep, &is_nil));
    if (strcmp(usage->sweep, "0") == 0)
        usage->sweep[0] = '\0';
    return STATUS_OK;
}

static enum status sent_take(struct usage_redis *usage)
{
    bool is_new = false;
    return mark_take_of(usage, KEY_SENT, &is_new);
}

static enum status sent_tell(struct usage_redis *usage, int64_t sequence)
{
    TRY(mark_queue(usage, KEY_SENT, sequence));
    return sent_take(usage);
}

/* Sets the stream's mark. Rows after it are entered into the stream. */
static enum status streamed_tell(struct usage_redis *usage, int64_t sequence)
{
    bool is_new = false;
    command_mark(usage, USAGE_SCRIPT_MARK, KEY_STREAMED);
    command_numbers(&usage->command, &sequence, 1);
    TRY(command_send(usage));
    usage->streamed = sequence;
    return mark_take_of(usage, KEY_STREAMED, &is_new);
}

/* Compares one day, read as of one commit. */
static enum status verify_step(struct usage_redis *usage, bool *is_done)
{
    int64_t day = 0;
    TRY(ledger_ship_begin(usage->ship, &usage->sequence));
    usage->mode = verify_words[usage->verify];
    /* A hash that is refused here may lack any row; with 'absent', any row after the mark. */
    usage->since = usage->verify == VERIFY_ABSENT ? usage->shipped_told + 1 : 0;
    enum status status = STATUS_OK;
    /* VERIFY_FORCE writes banyan:sent only at its end, so that it begins again after a failure */
    if (usage->verify != VERIFY_FORCE)
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
    int64_t then = usage->shared == 0 ? usage->verify_then : usage->verify_shared;
    if (usage->verify == VERIFY_FORCE) { /* no hash has the rows any more that were sent before */
        TRY(streamed_tell(usage, usage->verify_then));
        TRY(sent_tell(usage, usage->sequence));
    }
    LOG(usage->shared == 0 ? LOG_INFO : LOG_WARN, "redis_compared",
        LOG_TEXT("way", verify_words[usage->verify]), LOG_NUMBER("made", usage->made),
        LOG_NUMBER("shared", usage->shared));
    if (usage->verify != VERIFY_ABSENT)
        usage->shipped = then;
    usage->verify = VERIFY_NONE;
    snprintf(usage->run_id, sizeof usage->run_id, "%s", redis_link_server(usage->link)->run_id);
    return STATUS_OK;
}

/* --- rows --- */

static int64_t row_day(const struct ledger_row *row)
{
    return row->at_us / (DAY_S * INT64_C(1000000));
}

/* The rows of one batch, grouped by tenant and day. Groups are in the order of their first rows. */
struct batch {
    size_t count;                       /* the number of rows in usage->rows */
    size_t groups;                      /* the number of groups in `first` */
    size_t first[LIMIT_REDIS_BATCH];    /* the first row of each group */
    size_t group_of[LIMIT_REDIS_BATCH]; /* the group of each row */
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
    command_day(usage, USAGE_SCRIPT_ADD, first->tenant_id, row_day(first));
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

/* --- the stream --- */

static void enter_row(struct usage_redis *usage, const struct ledger_row *row)
{
    struct command *command = &usage->command;
    const char *const texts[] = {row->tenant_id,     row->key_id, row->model,
                                 row->service_class, row->finish, row->is_estimated ? "1" : "0"};
    const int64_t numbers[] = {row->at_us,         row->http_code,         row->prompt_tokens,
                               row->cached_tokens, row->completion_tokens, row->cost_nano};
    _Static_assert(1 + sizeof texts / sizeof texts[0] + sizeof numbers / sizeof numbers[0] ==
                       USAGE_SCRIPTS_ENTRY_VALUES,
                   "an entry has as many values as names");
    command_numbers(command, &row->sequence, 1);
    command_print(command, "%s-%" PRId64, ledger_ship_edge(usage->ship), row->sequence);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        command_add(command, slice_of(texts[i]));
    command_numbers(command, numbers, sizeof numbers / sizeof numbers[0]);
}

static size_t enter_scripts(size_t rows)
{
    return (rows + ENTER_ROWS - 1) / ENTER_ROWS;
}

static enum status enter_queue(struct usage_redis *usage, const struct ledger_row *rows,
                               size_t count)
{
    for (size_t from = 0; from < count; from += ENTER_ROWS) {
        const int64_t before[] = {rows[0].sequence - 1, rows[from].sequence - 1};
        command_script(usage, USAGE_SCRIPT_ENTER, 4);
        command_key(usage, KEY_STREAM);
        command_key(usage, KEY_STREAMED);
        command_key_aside(usage, KEY_STREAM);
        command_key_aside(usage, KEY_STREAMED);
        command_edge(usage);
        command_numbers(&usage->command, before, 2);
        command_numbers(&usage->command, &usage->last, 1);
        command_print(&usage->command, "%" PRIu32, usage->stream_length);
        for (size_t i = from; i < count && i < from + ENTER_ROWS; i++)
            enter_row(usage, &rows[i]);
        TRY(command_send(usage));
    }
    return STATUS_OK;
}

static void enter_refused(struct usage_redis *usage, enum redis_reason reason)
{
    if (usage->stream_retry_us == 0 && tell_may(usage))
        LOG(LOG_WARN, "redis_key_waits", LOG_TEXT("key", key_names[KEY_STREAM]),
            LOG_TEXT("reason", redis_link_reason_word(reason)));
    usage->stream_retry_us = clock_mono_us(clock_system()) + STREAM_RETRY_MS * INT64_C(1000);
    waiting_show(usage);
}

static void enter_taken(struct usage_redis *usage, int64_t answer)
{
    for (int64_t i = 0; i < answer / USAGE_SCRIPTS_ASIDE; i++)
        tell_aside(usage, key_names[KEY_STREAM]);
    if (usage->stream_retry_us != 0 && tell_may(usage))
        LOG(LOG_INFO, "redis_key_mended", LOG_TEXT("key", key_names[KEY_STREAM]));
    usage->stream_retry_us = 0;
    waiting_show(usage);
}

/* Takes the replies to enter_queue, for the rows up to `last`. When Redis has lost entries or
 * refused earlier ones, its mark is before the rows that were sent. Then rows are sent again from
 * that mark on. */
static enum status enter_take(struct usage_redis *usage, size_t scripts, int64_t last)
{
    bool is_whole = true;
    for (size_t i = 0; i < scripts; i++) {
        int64_t answer = 0;
        enum redis_reason reason = REDIS_REASON_NONE;
        TRY(redis_link_take_outcome(usage->link, -1 - LEDGER_SHIP_SEQUENCE_MAX,
                                    3 * USAGE_SCRIPTS_ASIDE, &answer, &reason));
        if (reason != REDIS_REASON_NONE)
            enter_refused(usage, reason);
        else if (answer < 0)
            usage->streamed = -1 - answer;
        else
            enter_taken(usage, answer);
        is_whole = is_whole && reason == REDIS_REASON_NONE && answer >= 0;
    }
    if (is_whole && usage->streamed < last)
        usage->streamed = last;
    return STATUS_OK;
}

/* Whether the rows after `shipped` can be entered into the stream in the same batch. */
static bool enter_is_level(const struct usage_redis *usage)
{
    return usage->stream_length != 0 && usage->stream_retry_us == 0 &&
           usage->streamed >= usage->shipped;
}

/* Enters rows that are in their hashes and not yet in the stream. */
static enum status turn_stream(struct usage_redis *usage, bool *has_more)
{
    bool is_late = usage->stream_length != 0 && usage->streamed < usage->shipped;
    if (!is_late || clock_mono_us(clock_system()) < usage->stream_retry_us)
        return STATUS_OK;
    size_t count = 0;
    bool is_gapped = false;
    int64_t first = 0;
    TRY(ledger_ship_span(usage->ship, &first, &usage->last));
    TRY(ledger_ship_rows(usage->ship, usage->streamed, usage->rows, ENTER_ROWS, &count,
                         &is_gapped));
    if (count == 0) {
        usage->streamed = usage->shipped;
        return STATUS_OK;
    }
    if (is_gapped) { /* the missing rows are in the hashes only */
        int64_t before = usage->rows[0].sequence - 1;
        LOG(LOG_WARN, "redis_rows_gone", LOG_NUMBER("from", usage->streamed + 1),
            LOG_NUMBER("to", before));
        TRY(streamed_tell(usage, before));
    }
    TRY(enter_queue(usage, usage->rows, count));
    TRY(enter_take(usage, enter_scripts(count), usage->rows[count - 1].sequence));
    *has_more = *has_more || usage->stream_retry_us == 0;
    return STATUS_OK;
}

/* --- batches --- */

/* Makes the hashes that a batch found missing or broken, from sums that include the batch's
 * rows. */
static enum status batch_make(struct usage_redis *usage, const struct batch *batch,
                              const bool *is_absent)
{
    TRY(ledger_ship_begin(usage->ship, &usage->sequence));
    enum status status = sent_tell(usage, usage->sequence);
    /* all modes treat a hash without this edge's mark alike */
    usage->mode = verify_words[VERIFY_FORCE];
    usage->since = usage->rows[0].sequence;
    for (size_t i = 0; i < batch->groups && status == STATUS_OK; i++) {
        const struct ledger_row *first = &usage->rows[batch->first[i]];
        if (is_absent[i])
            status = make_day(usage, row_day(first), first->tenant_id);
    }
    ledger_ship_end(usage->ship);
    TRY(status);
    return sets_take(usage);
}

/* Takes the replies to a batch's groups. Groups whose day waits were not sent: their hashes are
 * made from sums later. */
static enum status batch_take_groups(struct usage_redis *usage, const struct batch *batch,
                                     const bool *is_waiting, bool *is_absent, bool *must_make)
{
    for (size_t i = 0; i < batch->groups; i++) {
        const struct ledger_row *first = &usage->rows[batch->first[i]];
        int64_t added = 0;
        enum redis_reason reason = REDIS_REASON_NONE;
        if (is_waiting[i])
            continue;
        TRY(redis_link_take_outcome(usage->link, -1, LIMIT_REDIS_BATCH, &added, &reason));
        if (reason != REDIS_REASON_NONE)
            day_refused(usage, first->tenant_id, row_day(first), first->sequence, reason);
        is_absent[i] = reason == REDIS_REASON_NONE && added < 0;
        *must_make = *must_make || is_absent[i];
    }
    return STATUS_OK;
}

static enum status batch_send(struct usage_redis *usage, const struct batch *batch)
{
    bool is_waiting[LIMIT_REDIS_BATCH] = {false};
    bool is_absent[LIMIT_REDIS_BATCH] = {false};
    bool must_make = false;
    int64_t told = mark_wanted(usage);
    bool is_due = mark_is_due(usage);
    bool is_level = enter_is_level(usage);
    TRY(mark_queue(usage, KEY_SENT, usage->last)); /* before the rows */
    if (is_due)
        TRY(mark_queue(usage, KEY_SHIPPED, told));
    for (size_t i = 0; i < batch->groups; i++) {
        const struct ledger_row *first = &usage->rows[batch->first[i]];
        is_waiting[i] = usage_waiting_has(&usage->waiting, first->tenant_id, row_day(first));
        if (!is_waiting[i])
            TRY(batch_queue_group(usage, batch, i));
    }
    if (is_level)
        TRY(enter_queue(usage, usage->rows, batch->count));
    TRY(sent_take(usage));
    if (is_due)
        TRY(mark_take(usage, told));
    TRY(batch_take_groups(usage, batch, is_waiting, is_absent, &must_make));
    if (is_level)
        TRY(enter_take(usage, enter_scripts(batch->count), usage->rows[batch->count - 1].sequence));
    return must_make ? batch_make(usage, batch, is_absent) : STATUS_OK;
}

static enum status turn_rows(struct usage_redis *usage, bool *has_more)
{
    struct batch batch;
    bool is_gapped = false;
    TRY(ledger_ship_rows(usage->ship, usage->shipped, usage->rows, LIMIT_REDIS_BATCH, &batch.count,
                         &is_gapped));
    if (is_gapped) { /* the missing rows are in the ledger's sums only */
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
    int64_t last = usage->rows[batch.count - 1].sequence;
    int64_t before = usage->shipped;
    TRY(batch_send(usage, &batch));
    if (usage->shipped == before) /* otherwise set_shared has moved it back */
        usage->shipped = last;
    if (usage->rows_shipped != NULL)
        metric_add(usage->rows_shipped, (int64_t)batch.count);
    return STATUS_OK;
}

/* --- hashes that wait --- */

/* Makes refused hashes from sums again, and checks those that were made lately. */
static enum status turn_waiting(struct usage_redis *usage)
{
    struct usage_waiting_entry due[USAGE_WAITING_DUE];
    uint32_t count = usage_waiting_due(&usage->waiting, clock_mono_us(clock_system()), due);
    if (count == 0)
        return STATUS_OK;
    TRY(ledger_ship_begin(usage->ship, &usage->sequence));
    enum status status = sent_tell(usage, usage->sequence);
    usage->since = usage->shipped + 1;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        usage->mode = verify_words[due[i].is_watched ? VERIFY_ABSENT : VERIFY_REPLACE];
        status = make_day(usage, due[i].day, due[i].tenant_id);
    }
    ledger_ship_end(usage->ship);
    TRY(status);
    return sets_take(usage);
}

/* Compares all days when more hashes were refused than the list holds, as soon as it has room. */
static void waiting_look_lost(struct usage_redis *usage)
{
    struct usage_waiting *waiting = &usage->waiting;
    if (waiting->lost_since == INT64_MAX || usage->verify != VERIFY_NONE ||
        usage_waiting_count(waiting) > USAGE_WAITING_MAX / 2)
        return;
    int64_t then =
        waiting->lost_since - 1 < usage->shipped ? waiting->lost_since - 1 : usage->shipped;
    verify_begin(usage, VERIFY_REPLACE, then > 0 ? then : 0, then > 0 ? then : 0);
    waiting->lost_since = INT64_MAX;
}

/* --- the link's callbacks --- */

/* Decides by Redis's marks what happens after a connection. Without a mark (Redis is new, restarted
 * empty, was flushed, lost the mark), hashes are made from the ledger's sums, and the stream gets
 * the last rows again. When a mark is beyond the ledger's last row, or its row is another one, the
 * ledger's file is an older copy of itself. Then all hashes are made again, whatever they hold. The
 * mark in banyan:sent shows this for rows after the mark in banyan:shipped. Otherwise rows continue
 * after the mark. If Redis runs as a new process, missing hashes are made meanwhile. */
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
    struct mark streamed;
    TRY(mark_read(usage, KEY_STREAMED, &streamed));
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
        usage->shipped = last; /* no row counts as missing before the comparison */
        mark = from > all ? from : all;
        verify_begin(usage, is_other ? VERIFY_FORCE : VERIFY_REPLACE, mark, all);
    } else if (is_other) {
        int64_t then = is_told_other ? last : mark; /* the stream has the rows up to this one */
        verify_begin(usage, VERIFY_FORCE, then, then);
    } else if (strcmp(usage->run_id, redis_link_server(usage->link)->run_id) != 0) {
        verify_begin(usage, VERIFY_ABSENT, mark, mark);
    }
    /* Redis's mark says how far the stream is. Without a mark, the stream is as far as the
     * hashes. */
    if (streamed.sequence >= 0 && streamed.sequence <= last) {
        usage->streamed = streamed.sequence;
        return STATUS_OK;
    }
    return streamed_tell(usage, mark < last ? mark : last);
}

static enum status on_connected(void *context, struct redis_link *link)
{
    struct usage_redis *usage = context;
    const struct redis_link_server *server = redis_link_server(link);
    usage->link = link;
    usage->beat_at_us = 0;
    usage->sets = 0;
    usage->shipped_told = -1;
    usage->asides = -1;
    for (int i = 0; i < USAGE_SCRIPTS; i++)
        TRY(redis_link_load(link, usage_scripts_text((enum usage_script)i), usage->sha[i]));
    TRY(beat(usage)); /* a write: a Redis that is a replica, is full or cannot save refuses it */
    if (server->has_maxmemory && strcmp(server->policy, "noeviction") != 0 &&
        strcmp(usage->run_id, server->run_id) != 0)
        LOG(LOG_WARN, "redis_may_evict", LOG_TEXT("policy", server->policy),
            LOG_TEXT("mend", "set maxmemory-policy noeviction: usage of other keys would go"));
    struct mark told, sent;
    TRY(mark_read(usage, KEY_SHIPPED, &told));
    TRY(mark_read(usage, KEY_SENT, &sent));
    return compare(usage, &told, &sent);
}

/* Whether rows must wait for the comparison. Missing hashes can be made while rows go on. */
static bool verify_is_first(const struct usage_redis *usage)
{
    return usage->verify == VERIFY_REPLACE || usage->verify == VERIFY_FORCE;
}

/* Starts a comparison that makes missing hashes, when another edge has moved a key that may have
 * held this edge's usage. */
static void look_compare(struct usage_redis *usage)
{
    int64_t now_us = clock_mono_us(clock_system());
    waiting_look_lost(usage);
    if (!usage->must_compare || usage->verify != VERIFY_NONE || now_us < usage->compare_after_us)
        return;
    usage->must_compare = false;
    usage->compare_after_us = now_us + COMPARE_MS * INT64_C(1000);
    verify_begin(usage, VERIFY_ABSENT, usage->shipped, usage->shipped);
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
    look_compare(usage);
    if (!verify_is_first(usage)) {
        TRY(turn_rows(usage, has_more));
        TRY(turn_stream(usage, has_more));
        TRY(turn_waiting(usage));
    }
    if (usage->verify != VERIFY_NONE && !*has_more) {
        TRY(turn_verify(usage));
        *has_more = true;
    }
    return lag_look(usage);
}

static void on_down(void *context)
{
    (void)lag_look(context); /* the ledger itself logs that it cannot be read */
}

static void on_closing(void *context, struct redis_link *link)
{
    struct usage_redis *usage = context;
    int64_t removed = 0;
    if (!verify_is_first(usage) && mark_tell(usage) != STATUS_OK)
        return;
    command_begin(&usage->command, SLICE("ZREM"));
    command_key(usage, KEY_EDGES);
    command_edge(usage);
    if (command_send(usage) == STATUS_OK)
        /* Redis drops the entry in 10 s anyway */
        (void)redis_link_take_number(link, 0, 1, &removed);
}

/* --- open and close --- */

/* Makes the metrics that alerts read. They exist without a Redis, too. */
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
    usage->keys_aside = metrics_get(registry, METRIC_COUNTER, "banyan_redis_keys_aside_total",
                                    "Keys that held something else and were moved to "
                                    "banyan:aside:, as far as this edge did it.",
                                    "", NULL, 0);
    usage->keys_waiting =
        metrics_get(registry, METRIC_GAUGE, "banyan_redis_keys_waiting",
                    "Keys that Redis takes nothing for: their rows wait.", "", NULL, 0);
    usage->hashes_made =
        metrics_get(registry, METRIC_COUNTER, "banyan_redis_hashes_made_total",
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
    /* Until Redis is asked, rows that were there before count as shipped. */
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
    usage_waiting_init(&usage->waiting);
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
