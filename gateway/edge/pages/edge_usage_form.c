#include "gateway/edge/pages/edge_usage_form.h"

#include <stdio.h>
#include <string.h>

#include "config/base/decimal.h"
#include "config/base/service_class.h"
#include "gateway/http/query_string.h"

enum {
    OWN = EDGE_USAGE_OWN,
    ALL = EDGE_USAGE_ALL,
    ORGANIZATION = EDGE_USAGE_ORGANIZATION,
    COSTS = EDGE_USAGE_COSTS,
    REQUESTS = EDGE_USAGE_REQUESTS,
    OPENAI = ORGANIZATION | COSTS,
    SUMS = OWN | ALL | OPENAI,
    NAME_BYTES = 64,
    REQUESTS_USUAL = 100,
};

/* The last second of the year 9999; later times are refused. */
static const int64_t TIME_MAX_S = INT64_C(253402300799);

static const struct width {
    const char *name;
    int64_t seconds;
    uint32_t usual;
    uint32_t most;
} widths[] = {{"1m", 60, 60, LIMIT_USAGE_BUCKETS}, {"1h", 3600, 24, 168}, {"1d", 86400, 7, 31}};
static const struct width costs_width = {"1d", 86400, 7, 180};
static const struct width requests_width = {"", 1, REQUESTS_USUAL, LIMIT_USAGE_REQUESTS};

enum piece {
    START_TIME,
    END_TIME,
    BUCKET_WIDTH,
    LIMIT,
    PAGE,
    FORMAT,
    BATCH,
    AFTER,
    ORDER,
    PIECES, /* the parameters after this one are lists */
    GROUP_BY,
    TENANTS,
    KEYS,
    MODELS,
    CLASSES,
};

static const struct parameter {
    const char *name;
    unsigned kinds;
    enum piece piece;
} parameters[] = {
    {"start_time", SUMS | REQUESTS, START_TIME},
    {"end_time", SUMS | REQUESTS, END_TIME},
    {"bucket_width", SUMS, BUCKET_WIDTH},
    {"group_by", SUMS, GROUP_BY},
    {"limit", SUMS | REQUESTS, LIMIT},
    {"page", SUMS, PAGE},
    {"tenant_id", ALL | REQUESTS, TENANTS},
    {"key_id", ALL | REQUESTS, KEYS},
    {"model", ALL | REQUESTS, MODELS},
    {"class", ALL | REQUESTS, CLASSES},
    {"format", ALL | REQUESTS, FORMAT},
    {"after", REQUESTS, AFTER},
    {"order", REQUESTS, ORDER},
    {"project_ids", OPENAI, TENANTS},
    {"api_key_ids", OPENAI, KEYS},
    {"models", ORGANIZATION, MODELS},
    {"batch", ORGANIZATION, BATCH},
};

static const struct group {
    const char *name;
    unsigned kinds;
    uint32_t bit;
} groups[] = {
    {"tenant", ALL, LEDGER_USAGE_TENANT},
    {"key", OWN | ALL, LEDGER_USAGE_KEY},
    {"model", OWN | ALL | ORGANIZATION, LEDGER_USAGE_MODEL},
    {"class", OWN | ALL, LEDGER_USAGE_CLASS},
    {"project_id", OPENAI, LEDGER_USAGE_TENANT},
    {"api_key_id", OPENAI, LEDGER_USAGE_KEY},
    {"service_tier", ORGANIZATION, LEDGER_USAGE_CLASS},
};

struct reading {
    enum edge_usage_kind kind;
    struct edge_usage_form *form;
    struct ledger_usage_filter *filter;
    struct slice pieces[PIECES]; /* bytes NULL: the parameter is not given */
    uint32_t seen;               /* bits of enum piece */
};

/* --- words --- */

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes percent-encoding, reads a plus as a space, and ends the text with a NUL. Returns false
 * when the encoding is wrong, the text does not fit, or it has control characters. */
static bool decode(struct slice text, char *out, size_t capacity)
{
    size_t length = 0;
    for (size_t i = 0; i < text.length; i++) {
        int byte = (unsigned char)text.bytes[i];
        if (byte == '%') {
            int high = i + 2 < text.length ? hex_of(text.bytes[i + 1]) : -1;
            int low = high >= 0 ? hex_of(text.bytes[i + 2]) : -1;
            if (low < 0)
                return false;
            byte = high * 16 + low;
            i += 2;
        } else if (byte == '+') {
            byte = ' ';
        }
        if (byte < ' ' || byte == 0x7f || length + 1 >= capacity)
            return false;
        out[length++] = (char)byte;
    }
    out[length] = '\0';
    return true;
}

/* The next word of a list; words are separated by "," or "%2C". False after the last word. */
static bool word_next(struct slice list, size_t *at, struct slice *word)
{
    size_t start = *at;
    if (start > list.length)
        return false;
    for (size_t i = start; i < list.length; i++) {
        bool is_coded = i + 3 <= list.length && (memcmp(list.bytes + i, "%2C", 3) == 0 ||
                                                 memcmp(list.bytes + i, "%2c", 3) == 0);
        if (list.bytes[i] != ',' && !is_coded)
            continue;
        *word = (struct slice){list.bytes + start, i - start};
        *at = i + (is_coded ? 3 : 1);
        return true;
    }
    *word = (struct slice){list.bytes + start, list.length - start};
    *at = list.length + 1;
    return true;
}

/* --- lists --- */

static enum status read_group(const struct reading *reading, struct slice word)
{
    uint32_t bit = 0;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if ((groups[i].kinds & reading->kind) != 0 && slice_is(word, groups[i].name))
            bit = groups[i].bit;
    }
    if (bit == 0 || (reading->form->group_by & bit) != 0)
        FAIL_PARAM(STATUS_INVALID, "group_by",
                   reading->kind == EDGE_USAGE_OWN
                       ? "group_by must be a list of key, model and class, each at most once."
                   : reading->kind == EDGE_USAGE_ALL
                       ? "group_by must be a list of tenant, key, model and class, each at most "
                         "once."
                   : reading->kind == EDGE_USAGE_COSTS
                       ? "group_by must be a list of project_id and api_key_id, each at most once."
                       : "group_by must be a list of project_id, api_key_id, model and "
                         "service_tier, each at most once.");
    reading->form->group_by |= bit;
    return STATUS_OK;
}

/* Ids consist of letters, digits, _ and -; so do the ids that are made from a token's subject. */
static bool word_is_id(const char *word)
{
    size_t length = 0;
    for (const char *c = word; *c != '\0'; c++, length++) {
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              *c == '_' || *c == '-'))
            return false;
    }
    return length < LIMIT_ID_BYTES;
}

static enum status read_word(const struct reading *reading, const struct parameter *parameter,
                             struct slice word)
{
    struct ledger_usage_filter *filter = reading->filter;
    struct ledger_usage_words *list = parameter->piece == TENANTS  ? &filter->tenants
                                      : parameter->piece == KEYS   ? &filter->keys
                                      : parameter->piece == MODELS ? &filter->models
                                                                   : &filter->classes;
    enum service_class ignored;
    if (list->count == LIMIT_USAGE_WORDS)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, parameter->name, "%s may have %d values at most.",
                   parameter->name, LIMIT_USAGE_WORDS);
    char *out = list->words[list->count];
    bool is_id = parameter->piece == TENANTS || parameter->piece == KEYS;
    if (!decode(word, out, sizeof list->words[0]) || out[0] == '\0' || (is_id && !word_is_id(out)))
        FAIL_PARAM(STATUS_INVALID, parameter->name, "%s must be a list of ids or names.",
                   parameter->name);
    if (parameter->piece == CLASSES && !service_class_from_name(slice_of(out), &ignored) &&
        strcmp(out, LEDGER_CLASS_TEXT) != 0)
        FAIL_PARAM(STATUS_INVALID, "class", "class must be realtime, standard, batch or text.");
    list->count++;
    return STATUS_OK;
}

static enum status read_list(const struct reading *reading, const struct parameter *parameter,
                             struct slice value)
{
    size_t at = 0;
    struct slice word;
    while (word_next(value, &at, &word))
        TRY(parameter->piece == GROUP_BY ? read_group(reading, word)
                                         : read_word(reading, parameter, word));
    return STATUS_OK;
}

/* --- pairs --- */

/* OpenAI's clients write lists as name[]=a&name[]=b. */
static const struct parameter *parameter_find(const struct reading *reading, struct slice name)
{
    char plain[NAME_BYTES];
    if (!decode(name, plain, sizeof plain))
        return NULL;
    size_t length = strlen(plain);
    bool is_list =
        (reading->kind & OPENAI) != 0 && length > 2 && strcmp(plain + length - 2, "[]") == 0;
    plain[length - (is_list ? 2 : 0)] = '\0';
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        const struct parameter *parameter = &parameters[i];
        if ((parameter->kinds & reading->kind) != 0 && strcmp(plain, parameter->name) == 0)
            return !is_list || parameter->piece > PIECES ? parameter : NULL;
    }
    return NULL;
}

static enum status fail_unknown(enum edge_usage_kind kind)
{
    char names[256] = "";
    size_t length = 0;
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        if ((parameters[i].kinds & kind) != 0)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                       length > 0 ? ", " : "", parameters[i].name);
    }
    FAIL_PARAM(STATUS_UNSUPPORTED, "query", "Usage is asked with %s.", names);
}

static enum status read_pair(struct reading *reading, struct slice name, struct slice value)
{
    const struct parameter *parameter = parameter_find(reading, name);
    if (parameter == NULL)
        return fail_unknown(reading->kind);
    bool may_repeat = parameter->piece > PIECES && (reading->kind & OPENAI) != 0;
    if ((reading->seen & 1u << parameter->piece) != 0 && !may_repeat)
        FAIL_PARAM(STATUS_INVALID, parameter->name, "%s is given twice.", parameter->name);
    reading->seen |= 1u << parameter->piece;
    if (parameter->piece > PIECES)
        return read_list(reading, parameter, value);
    reading->pieces[parameter->piece] = value;
    return STATUS_OK;
}

static enum status split(struct slice query, struct reading *reading)
{
    struct query_string_pair pair;
    while (query_string_next(&query, &pair)) {
        if (!query_string_is_empty(&pair))
            TRY(read_pair(reading, pair.name, pair.value));
    }
    return STATUS_OK;
}

/* --- single values --- */

static enum status read_number(const char *name, struct slice text, int64_t most, int64_t *out)
{
    uint64_t number = 0;
    const enum decimal result = decimal_read(text, (uint64_t)most, &number);
    if (result == DECIMAL_MALFORMED)
        FAIL_PARAM(STATUS_INVALID, name, "%s must be a whole number.", name);
    if (result == DECIMAL_TOO_LARGE)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, name, "%s must be at most %lld.", name, (long long)most);
    *out = (int64_t)number;
    return STATUS_OK;
}

static enum status read_width(const struct reading *reading, const struct width **out)
{
    struct slice text = reading->pieces[BUCKET_WIDTH];
    *out = reading->kind == EDGE_USAGE_COSTS      ? &costs_width
           : reading->kind == EDGE_USAGE_REQUESTS ? &requests_width
                                                  : &widths[2];
    if (text.bytes == NULL)
        return STATUS_OK;
    if (reading->kind == EDGE_USAGE_COSTS && !slice_is(text, "1d"))
        FAIL_PARAM(STATUS_INVALID, "bucket_width", "bucket_width of costs must be 1d.");
    if (reading->kind == EDGE_USAGE_COSTS)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        *out = &widths[i];
        if (slice_is(text, widths[i].name))
            return STATUS_OK;
    }
    FAIL_PARAM(STATUS_INVALID, "bucket_width", "bucket_width must be 1m, 1h or 1d.");
}

/* A page's name is "page_" and the start of its first bucket, Unix time. */
static enum status read_page(struct slice text, struct edge_usage_form *out)
{
    if (text.bytes == NULL)
        return STATUS_OK;
    int64_t start_s = 0;
    bool has_mark = slice_starts_with(text, SLICE("page_"));
    struct slice digits = {text.bytes + 5, has_mark ? text.length - 5 : 0};
    if (!has_mark || read_number("page", digits, TIME_MAX_S, &start_s) != STATUS_OK ||
        start_s % out->width_s != 0 || start_s < out->start_s || start_s >= out->end_s)
        FAIL_PARAM(STATUS_INVALID, "page",
                   "page must be the next_page of an answer to the same question.");
    out->start_s = start_s;
    return STATUS_OK;
}

static enum status read_times(const struct reading *reading, int64_t now_s)
{
    const struct slice *pieces = reading->pieces;
    struct edge_usage_form *out = reading->form;
    int64_t start_s = 0;
    int64_t end_s = now_s + 1;
    if (pieces[START_TIME].bytes != NULL)
        TRY(read_number("start_time", pieces[START_TIME], TIME_MAX_S, &start_s));
    else if (reading->kind != EDGE_USAGE_REQUESTS)
        FAIL_PARAM(STATUS_INVALID, "start_time", "start_time is missing.");
    else
        end_s = TIME_MAX_S + 1; /* all rows, also those written while the clock was ahead */
    if (pieces[END_TIME].bytes != NULL)
        TRY(read_number("end_time", pieces[END_TIME], TIME_MAX_S, &end_s));
    if (end_s <= start_s)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, pieces[END_TIME].bytes != NULL ? "end_time" : "start_time",
                   "end_time must be after start_time.");
    out->start_s = start_s - start_s % out->width_s;
    out->end_s = (end_s - 1) - (end_s - 1) % out->width_s + out->width_s;
    return STATUS_OK;
}

/* A row's name is "row_" and its number. */
static enum status read_after(struct slice text, struct edge_usage_form *out)
{
    if (text.bytes == NULL)
        return STATUS_OK;
    bool has_mark = slice_starts_with(text, SLICE("row_"));
    struct slice digits = {text.bytes + 4, has_mark ? text.length - 4 : 0};
    if (!has_mark || read_number("after", digits, INT64_C(1) << 60, &out->after) != STATUS_OK ||
        out->after == 0)
        FAIL_PARAM(STATUS_INVALID, "after", "after must be the last_id of an answer.");
    return STATUS_OK;
}

static enum status read_choice(const char *name, struct slice text, const char *no, const char *yes,
                               bool *out)
{
    *out = text.bytes != NULL && slice_is(text, yes);
    if (text.bytes != NULL && !*out && !slice_is(text, no))
        FAIL_PARAM(STATUS_INVALID, name, "%s must be %s or %s.", name, no, yes);
    return STATUS_OK;
}

/* OpenAI's batch=true selects the class batch, and batch=false selects the other classes. The class
 * "text" (work on text alone) is in neither, because it is not a completion. */
static enum status read_batch(const struct reading *reading)
{
    bool is_batch = false;
    bool is_given = reading->pieces[BATCH].bytes != NULL;
    TRY(read_choice("batch", reading->pieces[BATCH], "false", "true", &is_batch));
    if (!is_given && reading->kind != EDGE_USAGE_ORGANIZATION)
        return STATUS_OK;
    struct ledger_usage_words *list = &reading->filter->classes;
    for (int i = 0; i < SERVICE_CLASS_COUNT; i++) {
        if (!is_given || (i == SERVICE_CLASS_BATCH) == is_batch)
            snprintf(list->words[list->count++], sizeof list->words[0], "%s",
                     service_class_name((enum service_class)i));
    }
    return STATUS_OK;
}

enum status edge_usage_form_read(enum edge_usage_kind kind, struct slice query, int64_t now_s,
                                 struct edge_usage_form *out, struct ledger_usage_filter *filter)
{
    struct reading reading = {.kind = kind, .form = out, .filter = filter};
    const struct width *width = NULL;
    int64_t limit = 0;
    *out = (struct edge_usage_form){.kind = kind};
    TRY(split(query, &reading));
    TRY(read_width(&reading, &width));
    out->width_s = width->seconds;
    TRY(read_times(&reading, now_s));
    TRY(read_page(reading.pieces[PAGE], out));
    TRY(read_after(reading.pieces[AFTER], out));
    TRY(read_choice("order", reading.pieces[ORDER], "asc", "desc", &out->is_descending));
    TRY(read_choice("format", reading.pieces[FORMAT], "json", "csv", &out->is_csv));
    if (filter != NULL)
        TRY(read_batch(&reading));
    limit = width->usual;
    if (reading.pieces[LIMIT].bytes != NULL)
        TRY(read_number("limit", reading.pieces[LIMIT], width->most, &limit));
    if (limit < 1)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "limit", "limit must be at least 1.");
    int64_t left = (out->end_s - out->start_s) / out->width_s;
    out->buckets = (uint32_t)(left < limit && kind != EDGE_USAGE_REQUESTS ? left : limit);
    return STATUS_OK;
}

void edge_usage_form_fill(const struct edge_usage_form *form, struct ledger_usage_query *out)
{
    out->start_s = form->start_s;
    out->width_s = form->width_s;
    out->buckets = form->buckets;
    out->group_by = form->group_by;
}
