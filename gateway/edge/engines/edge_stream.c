#include "gateway/edge/engines/edge_stream.h"

#include <string.h>

#include "config/base/clock.h"
#include "config/base/json_scan.h"
#include "config/base/limits.h"
#include "gateway/edge/state/edge_json.h"

enum { FIRST_BYTES_MAX = 4096, ERROR_BYTES_MAX = 16384, UTF8_BYTES = 4 };

void edge_stream_init(struct edge_stream *stream, const struct edge_stream_callbacks *callbacks,
                      void *context)
{
    *stream = (struct edge_stream){.callbacks = callbacks, .context = context};
    sse_reader_init(&stream->reader, LIMIT_ENGINE_FRAME_BYTES);
    buffer_init(&stream->error, ERROR_BYTES_MAX);
    buffer_init(&stream->first, FIRST_BYTES_MAX);
}

void edge_stream_deinit(struct edge_stream *stream)
{
    sse_reader_deinit(&stream->reader);
    buffer_deinit(&stream->error);
    buffer_deinit(&stream->first);
}

/* Members of banyan.start and banyan.final. */
enum record_field {
    PROTOCOL,
    RECORD_SEQ,
    PROMPT_TOKENS,
    CACHED_TOKENS,
    COMPLETION_TOKENS,
    REASONING_TOKENS, /* engines before they counted it do not send it */
    QUEUE_US,
    PREFILL_US,
    DECODE_US,
    FINISH_REASON,
    MODEL,
    ESTIMATED,
    CACHED_PUBLISHED,
    CACHED_GROUP,
    CACHED_OWN,
    CACHED_HOST,
    PREEMPTIONS,
    SWAPPED_PAGES,
    RECOMPUTED_TOKENS,
    DRAFTS_ACCEPTED,
    DRAFTS_REJECTED,
    SWAP_US,
    PAUSED_US,
    RECORD_FIELDS
};

static const struct json_scan_field record_names[RECORD_FIELDS] = {
    [PROTOCOL] = {.name = "protocol"},
    [RECORD_SEQ] = {.name = "record_seq"},
    [PROMPT_TOKENS] = {.name = "prompt_tokens"},
    [CACHED_TOKENS] = {.name = "cached_tokens"},
    [COMPLETION_TOKENS] = {.name = "completion_tokens"},
    [REASONING_TOKENS] = {.name = "reasoning_tokens"},
    [QUEUE_US] = {.name = "queue_us"},
    [PREFILL_US] = {.name = "prefill_us"},
    [DECODE_US] = {.name = "decode_us"},
    [FINISH_REASON] = {.name = "finish_reason"},
    [MODEL] = {.name = "model"},
    [ESTIMATED] = {.name = "estimated"},
    [CACHED_PUBLISHED] = {.name = "cached_published"},
    [CACHED_GROUP] = {.name = "cached_group"},
    [CACHED_OWN] = {.name = "cached_own"},
    [CACHED_HOST] = {.name = "cached_host"},
    [PREEMPTIONS] = {.name = "preemptions"},
    [SWAPPED_PAGES] = {.name = "swapped_pages"},
    [RECOMPUTED_TOKENS] = {.name = "recomputed_tokens"},
    [DRAFTS_ACCEPTED] = {.name = "drafts_accepted"},
    [DRAFTS_REJECTED] = {.name = "drafts_rejected"},
    [SWAP_US] = {.name = "swap_us"},
    [PAUSED_US] = {.name = "paused_us"},
};

static enum status record_number(const struct json_scan_field *field, int64_t most, int64_t *out)
{
    uint64_t number = 0;
    if (edge_json_number(field->value, (uint64_t)most, &number) != STATUS_OK)
        FAIL(STATUS_PROTOCOL, "a record of the engine has no usable %s", field->name);
    *out = (int64_t)number;
    return STATUS_OK;
}

/* Reads the members that banyan.start and banyan.final have in common. */
static enum status record_read(struct slice data, struct json_scan_field fields[RECORD_FIELDS],
                               struct edge_final *out)
{
    int64_t number[3] = {0};
    memcpy(fields, record_names, sizeof record_names);
    if (json_scan(data, fields, RECORD_FIELDS) != STATUS_OK)
        FAIL(STATUS_PROTOCOL, "a record of the engine is not a JSON object");
    TRY(record_number(&fields[PROTOCOL], INT32_MAX, &number[0]));
    if (number[0] != 1)
        FAIL(STATUS_PROTOCOL, "the engine speaks protocol %d, this edge 1", (int)number[0]);
    TRY(record_number(&fields[PROMPT_TOKENS], INT32_MAX, &number[1]));
    TRY(record_number(&fields[CACHED_TOKENS], number[1], &number[2]));
    TRY(record_number(&fields[QUEUE_US], INT64_MAX, &out->queue_us));
    out->prompt_tokens = (uint32_t)number[1];
    out->cached_tokens = (uint32_t)number[2];
    if (json_scan_is_string(fields[MODEL].value))
        json_scan_unescape(fields[MODEL].value, out->model, sizeof out->model);
    return STATUS_OK;
}

/* Reads the members that only explain; a missing one is 0. */
static enum status final_read_explained(const struct json_scan_field *fields,
                                        struct edge_final *out)
{
    uint32_t *const numbers[] = {
        &out->cached_published,  &out->cached_group,    &out->cached_own,
        &out->cached_host,       &out->preemptions,     &out->swapped_pages,
        &out->recomputed_tokens, &out->drafts_accepted, &out->drafts_rejected};
    int64_t *const times[] = {&out->swap_us, &out->paused_us};
    int64_t number = 0;
    for (int i = 0; i < 9; i++) {
        const struct json_scan_field *field = &fields[CACHED_PUBLISHED + i];
        if (field->value.bytes != NULL)
            TRY(record_number(field, INT32_MAX, &number));
        *numbers[i] = field->value.bytes != NULL ? (uint32_t)number : 0;
    }
    for (int i = 0; i < 2; i++) {
        *times[i] = 0;
        if (fields[SWAP_US + i].value.bytes != NULL)
            TRY(record_number(&fields[SWAP_US + i], INT64_MAX, times[i]));
    }
    return STATUS_OK;
}

static enum status final_read(struct slice data, struct edge_final *out)
{
    struct json_scan_field fields[RECORD_FIELDS];
    int64_t number[3] = {0};
    TRY(record_read(data, fields, out));
    TRY(record_number(&fields[RECORD_SEQ], INT64_MAX, &number[0]));
    TRY(record_number(&fields[COMPLETION_TOKENS], INT32_MAX, &number[1]));
    if (fields[REASONING_TOKENS].value.bytes != NULL)
        TRY(record_number(&fields[REASONING_TOKENS], number[1], &number[2]));
    TRY(record_number(&fields[PREFILL_US], INT64_MAX, &out->prefill_us));
    TRY(record_number(&fields[DECODE_US], INT64_MAX, &out->decode_us));
    struct json_value finish = fields[FINISH_REASON].value;
    char word[EDGE_STREAM_WORD_BYTES + UTF8_BYTES] = ""; /* so that a cut word is still too long */
    if (json_scan_is_string(finish))
        json_scan_unescape(finish, word, sizeof word);
    if (word[0] == '\0' || strlen(word) >= sizeof out->finish)
        FAIL(STATUS_PROTOCOL, "the engine's final record has no usable finish_reason");
    memcpy(out->finish, word, strlen(word) + 1);
    out->record_seq = (uint64_t)number[0];
    out->completion_tokens = (uint32_t)number[1];
    out->reasoning_tokens = (uint32_t)number[2];
    json_scan_bool(fields[ESTIMATED].value, &out->is_estimated);
    return final_read_explained(fields, out);
}

/* banyan.start: what the engine knows when it admits the request. It counts if the engine dies
 * later. */
static enum status event_start(struct edge_stream *stream, struct slice data)
{
    struct json_scan_field fields[RECORD_FIELDS];
    return record_read(data, fields, &stream->final);
}

static enum status event_final(struct edge_stream *stream, struct slice data)
{
    TRY(final_read(data, &stream->final));
    stream->has_final = true;
    stream->callbacks->final(stream->context);
    return STATUS_OK;
}

/* Takes {"n":N, off the start of a frame. The count must never fall. */
static enum status event_cut(struct edge_stream *stream, struct slice data, struct slice *rest)
{
    static const struct slice start = {"{\"n\":", 5};
    size_t at = start.length;
    while (at < data.length && data.bytes[at] >= '0' && data.bytes[at] <= '9')
        at++;
    uint64_t tokens = 0;
    if (!slice_starts_with(data, start) || at + 1 >= data.length || data.bytes[at] != ',' ||
        data.bytes[data.length - 1] != '}')
        FAIL(STATUS_PROTOCOL, "a frame of the engine does not begin with its count");
    TRY(edge_json_digits((struct slice){data.bytes + start.length, at - start.length}, UINT32_MAX,
                         &tokens));
    if (tokens < stream->tokens_seen)
        FAIL(STATUS_PROTOCOL, "the engine's count went back");
    stream->tokens_seen = (uint32_t)tokens;
    *rest = (struct slice){data.bytes + at + 1, data.length - at - 1};
    return STATUS_OK;
}

static enum status event_error(struct edge_stream *stream, struct slice rest)
{
    size_t name = SLICE("\"error\":").length;
    buffer_clear(&stream->error);
    buffer_append(&stream->error, rest.bytes + name, rest.length - name - 1);
    return stream->error.status;
}

/* Keeps what the first frame has before "choices" or "text", because the last frame begins the same
 * way. A quote inside a string is escaped, so the first match is the member itself. */
static void event_keep_first(struct edge_stream *stream, struct slice rest)
{
    static const char *const members[] = {"\"choices\":", "\"text\":"};
    if (stream->first.length != 0)
        return;
    for (size_t i = 0; i < 2 && stream->first.length == 0; i++) {
        const char *found = memmem(rest.bytes, rest.length, members[i], strlen(members[i]));
        if (found != NULL)
            buffer_append(&stream->first, rest.bytes, (size_t)(found - rest.bytes));
    }
    if (stream->first.status != STATUS_OK)
        buffer_clear(&stream->first);
}

static enum status feed_event(void *context, const struct sse_event *event)
{
    struct edge_stream *stream = context;
    if (stream->has_final)
        return STATUS_OK;
    if (slice_is(event->event, "banyan.final"))
        return event_final(stream, event->data);
    if (slice_is(event->event, "banyan.start"))
        return event_start(stream, event->data);
    bool is_standing = slice_is(event->event, "banyan.paused");
    if (is_standing || slice_is(event->event, "banyan.resumed")) {
        stream->callbacks->stand(stream->context, is_standing);
        return STATUS_OK;
    }
    if (event->event.length != 0 && !slice_is(event->event, "message"))
        FAIL(STATUS_PROTOCOL, "the engine sent an event of an unknown kind");
    if (memchr(event->data.bytes, '\n', event->data.length) != NULL)
        FAIL(STATUS_PROTOCOL, "a frame of the engine has several lines");
    struct slice rest;
    TRY(event_cut(stream, event->data, &rest));
    if (slice_starts_with(rest, SLICE("\"error\":")))
        return event_error(stream, rest);
    event_keep_first(stream, rest);
    return stream->callbacks->chunk(stream->context, rest);
}

size_t edge_stream_bytes(const struct edge_stream *stream)
{
    return sse_reader_bytes(&stream->reader) + stream->error.capacity + stream->first.capacity;
}

enum status edge_stream_feed(struct edge_stream *stream, struct slice bytes)
{
    return sse_reader_feed(&stream->reader, bytes, feed_event, stream);
}

void edge_stream_append_chunk(struct buffer *out, struct slice rest, bool with_null_usage)
{
    buffer_append_text(out, "data: {");
    buffer_append(out, rest.bytes, rest.length - (with_null_usage ? 1 : 0));
    buffer_append_text(out, with_null_usage ? ",\"usage\":null}\n\n" : "\n\n");
}

static void append_ms(struct buffer *out, const char *name, int64_t us)
{
    buffer_printf(out, "\"%s\":%lld.%03lld,", name, (long long)(us / 1000), (long long)(us % 1000));
}

/* All figures are of this request alone. Its times tell no more about other requests than the
 * client could measure. */
static void append_explained(struct buffer *out, const struct edge_final *final)
{
    uint32_t host =
        final->cached_host < final->cached_tokens ? final->cached_host : final->cached_tokens;
    buffer_printf(out, ",\"banyan\":{\"service_tier\":\"%s\",",
                  service_class_tier(final->service_class));
    append_ms(out, "queue_ms", final->queue_us);
    append_ms(out, "prefill_ms", final->prefill_us);
    append_ms(out, "decode_ms", final->decode_us);
    append_ms(out, "swap_ms", final->swap_us);
    append_ms(out, "paused_ms", final->paused_us);
    buffer_printf(out,
                  "\"preemptions\":%u,\"swapped_pages\":%u,\"recomputed_tokens\":%u,"
                  "\"drafts\":{\"accepted\":%u,\"rejected\":%u},"
                  "\"cached_tokens\":{\"published\":%u,\"group\":%u,"
                  "\"own\":%u,\"device\":%u,\"host\":%u}}",
                  final->preemptions, final->swapped_pages, final->recomputed_tokens,
                  final->drafts_accepted, final->drafts_rejected, final->cached_published,
                  final->cached_group, final->cached_own, final->cached_tokens - host, host);
}

void edge_stream_append_usage(struct buffer *out, const struct edge_final *final)
{
    buffer_append_text(out, "{\"prompt_tokens\":");
    buffer_append_number(out, final->prompt_tokens);
    buffer_append_text(out, ",\"completion_tokens\":");
    buffer_append_number(out, final->completion_tokens);
    buffer_append_text(out, ",\"total_tokens\":");
    buffer_append_number(out, (uint64_t) final->prompt_tokens + final->completion_tokens);
    buffer_append_text(out, ",\"prompt_tokens_details\":{\"cached_tokens\":");
    buffer_append_number(out, final->cached_tokens);
    buffer_append_text(out, "},\"completion_tokens_details\":{\"reasoning_tokens\":");
    buffer_append_number(out, final->reasoning_tokens);
    buffer_append_char(out, '}');
    if (final->is_explained)
        append_explained(out, final);
    buffer_append_char(out, '}');
}

static void append_generation_end(struct buffer *out, const struct edge_final *final)
{
    buffer_append_text(out, "\"text\":\"\",\"finish_reason\":");
    buffer_append_json_string(out, slice_of(final->is_limited ? "length" : final->finish));
    buffer_append_text(out, ",\"usage\":");
}

void edge_stream_append_usage_chunk(struct buffer *out, const struct edge_stream *stream,
                                    enum edge_stream_form form, struct slice fallback)
{
    buffer_append_text(out, "data: {");
    buffer_append_slice(out, stream->first.length != 0 ? buffer_slice(&stream->first) : fallback);
    if (form == EDGE_STREAM_GENERATION)
        append_generation_end(out, &stream->final);
    else
        buffer_append_text(out, "\"choices\":[],\"usage\":");
    edge_stream_append_usage(out, &stream->final);
    buffer_append_text(out, "}\n\n");
}

void edge_stream_set_tier(struct buffer *head, enum service_class service_class)
{
    static const char member[] = "\"service_tier\":\"";
    const char *tier = service_class_tier(service_class);
    const char *found =
        head->length != 0 ? memmem(head->bytes, head->length, member, sizeof member - 1) : NULL;
    if (found == NULL)
        return;
    size_t at = (size_t)(found - head->bytes) + sizeof member - 1;
    const char *end = memchr(head->bytes + at, '"', head->length - at);
    struct buffer out;
    buffer_init(&out, head->length + strlen(tier) + 1);
    buffer_append(&out, head->bytes, at);
    buffer_append_text(&out, tier);
    if (end != NULL)
        buffer_append(&out, end, (size_t)(head->bytes + head->length - end));
    if (end != NULL && out.status == STATUS_OK) {
        buffer_clear(head);
        buffer_append_slice(head, buffer_slice(&out));
    }
    buffer_deinit(&out);
}

const struct edge_stream_names *edge_stream_names(enum edge_stream_form form)
{
    static const struct edge_stream_names names[] = {
        [EDGE_STREAM_CHAT] = {"chatcmpl", "chat.completion", "chat.completion.chunk"},
        [EDGE_STREAM_TEXT] = {"cmpl", "text_completion", "text_completion"},
        [EDGE_STREAM_GENERATION] = {"gen", "generation", "generation"},
        [EDGE_STREAM_EMBEDDINGS] = {"emb", "list", "list"},
    };
    return &names[form];
}

void edge_stream_append_fallback(struct buffer *out, enum edge_stream_form form,
                                 const char *request_id, const char *model, const char *tier)
{
    const struct edge_stream_names *names = edge_stream_names(form);
    const char *hex = strchr(request_id, '_');
    buffer_printf(out, "\"id\":\"%s-%s\",", names->id, hex != NULL ? hex + 1 : request_id);
    if (tier != NULL)
        buffer_printf(out, "\"object\":\"%s\",\"service_tier\":\"%s\",", names->chunk, tier);
    buffer_printf(
        out, "\"created\":%lld,\"model\":", (long long)(clock_wall_us(clock_system()) / 1000000));
    buffer_append_json_string(out, slice_of(model));
    buffer_append_char(out, ',');
}
