#include "tests/kit/engine_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "tests/kit/llama_file.h"
#include "tests/kit/tiny_model.h"

enum { VOCAB = 320, CONTEXT = 512, WAIT_US = 60000000, NAP_US = 100 };

uint32_t engine_run_type; /* 0: F32 */
const char *engine_run_tiny;
uint32_t engine_run_kv_heads;
static char made_path[64];

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "engine_run: %s: %s\n", what, status_note()->message);
    abort();
}

#define MUST(condition, what)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            die(what);                                                                             \
    } while (0)

struct engine_options engine_run_options(void)
{
    return (struct engine_options){
        .model_name = "tiny",
        .model_descriptor = -1,
        .isa = "ref_int8",
        .kv_type = "f16",
        .threads = 1,
        .context = CONTEXT,
        /* 32 pages of 16 tokens, 2 layers, 2 heads, K and V, 32 numbers of 2 bytes; 4 times. */
        .kv_bytes = 4 * 32 * (16 * 2 * 2 * 2 * 32 * 2),
        .rows_max = 64,
        .sequences_max = 8,
        .clock = clock_system(),
    };
}

/* Puts a file with what was written, and a tokenizer, into /tmp. */
static void write_file(struct gguf_writer *writer, uint32_t vocab, char *path, size_t room)
{
    struct buffer file;
    llama_file_write_tokenizer(writer, vocab);
    gguf_writer_finish(writer, &file);
    gguf_writer_deinit(writer);
    snprintf(path, room, "/tmp/banyan-test-XXXXXX");
    int descriptor = mkstemp(path);
    MUST(descriptor >= 0, "no temporary file");
    MUST(write(descriptor, file.bytes, file.length) == (ssize_t)file.length, "short write");
    close(descriptor);
    buffer_deinit(&file);
}

void engine_run_write_model(const struct llama_shape *shape, char *path, size_t room)
{
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    llama_file_write(&writer, shape);
    write_file(&writer, shape->vocab, path, room);
}

static void write_tiny(const char *name, char *path, size_t room)
{
    const struct tiny_model *found = tiny_model_find(name);
    struct gguf_writer writer;
    MUST(found != NULL, "tiny_models.def has no such row");
    struct tiny_model model = *found;
    model.context = CONTEXT;
    if (engine_run_kv_heads > 0)
        model.kv_heads = engine_run_kv_heads;
    gguf_writer_init(&writer);
    tiny_model_write(&writer, &model);
    write_file(&writer, TINY_VOCAB, path, room);
}

struct llama_shape engine_run_shape(void)
{
    struct llama_shape shape = llama_file_shape();
    shape.vocab = VOCAB;
    shape.type = engine_run_type;
    return shape;
}

const char *engine_run_make_model(void)
{
    const struct llama_shape shape = engine_run_shape();
    if (made_path[0] == '\0' && engine_run_tiny != NULL)
        write_tiny(engine_run_tiny, made_path, sizeof(made_path));
    else if (made_path[0] == '\0')
        engine_run_write_model(&shape, made_path, sizeof(made_path));
    return made_path;
}

void engine_run_remove_model(void)
{
    if (made_path[0] != '\0')
        unlink(made_path);
    made_path[0] = '\0';
}

struct engine *engine_run_open(const struct engine_options *options)
{
    struct engine_options own = *options;
    struct engine *engine = NULL;
    if (own.model_path == NULL)
        own.model_path = engine_run_make_model();
    MUST(engine_open(&engine, &own) == STATUS_OK, "engine_open");
    return engine;
}

void engine_run_close(struct engine *engine)
{
    engine_close(engine);
    engine_run_remove_model();
}

void engine_run_submit(struct engine *engine, const struct engine_request *request,
                       struct engine_run_transcript *transcript)
{
    bool holds = transcript->holds_acknowledgements;
    memset(transcript, 0, sizeof(*transcript));
    transcript->holds_acknowledgements = holds;
    struct engine_request own = *request;
    own.context = transcript;
    MUST(engine_submit(engine, &own, &transcript->id) == STATUS_OK, "engine_submit");
}

static void take_token(struct engine_run_token *out, const struct engine_event *event)
{
    out->token = event->token;
    out->logprob = event->logprob;
    out->text_offset = event->text_offset;
    out->top_count = event->top_count;
    memcpy(out->top, event->top, event->top_count * sizeof(event->top[0]));
}

static void take_text(struct engine_run_choice *choice, struct slice text)
{
    MUST(choice->text_bytes + text.length <= sizeof(choice->text), "the text is too long");
    if (text.length > 0)
        memcpy(choice->text + choice->text_bytes, text.bytes, text.length);
    choice->text_bytes += (uint32_t)text.length;
}

static void take_event(struct engine *engine, const struct engine_event *event)
{
    struct engine_run_transcript *transcript = event->context;
    struct engine_run_choice *choice = &transcript->choices[event->choice];
    MUST(!transcript->is_over, "an event came after the last one");
    MUST(event->kind == ENGINE_EVENT_START || event->kind == ENGINE_EVENT_ERROR ||
             transcript->is_started,
         "an event came before START");
    switch (event->kind) {
    case ENGINE_EVENT_START:
        MUST(!transcript->is_started, "START came twice");
        MUST(event->report.prompt_tokens > 0, "START reports no prompt tokens");
        transcript->is_started = true;
        break;
    case ENGINE_EVENT_PROMPT:
        MUST(choice->count == 0, "PROMPT came after TOKEN");
        take_token(&choice->prompt[choice->prompt_count++], event);
        MUST(choice->echo_bytes + event->text.length <= sizeof(choice->echo),
             "the echo is too long");
        if (event->text.length > 0)
            memcpy(choice->echo + choice->echo_bytes, event->text.bytes, event->text.length);
        choice->echo_bytes += (uint32_t)event->text.length;
        break;
    case ENGINE_EVENT_TOKEN:
        MUST(choice->finish == ENGINE_FINISH_NONE, "TOKEN came after CHOICE_END");
        MUST(!choice->is_paused, "TOKEN came while the choice was paused");
        MUST(choice->count < ENGINE_RUN_TOKENS, "the choice has too many tokens");
        MUST(event->tokens_so_far == ++transcript->tokens_so_far, "tokens_so_far");
        take_token(&choice->tokens[choice->count++], event);
        take_text(choice, event->text);
        if (transcript->holds_acknowledgements)
            transcript->unacknowledged[event->choice]++;
        else
            engine_acknowledge(engine, event->id, event->choice, 1);
        break;
    case ENGINE_EVENT_EMBEDDING:
        MUST(choice->finish == ENGINE_FINISH_NONE, "EMBEDDING came after CHOICE_END");
        MUST(event->text.length == sizeof(transcript->embedding), "the embedding's length");
        memcpy(transcript->embedding, event->text.bytes, event->text.length);
        transcript->embeddings++;
        break;
    case ENGINE_EVENT_CHOICE_END:
        MUST(choice->finish == ENGINE_FINISH_NONE, "CHOICE_END came twice");
        MUST(event->finish != ENGINE_FINISH_NONE, "CHOICE_END has no reason");
        choice->finish = event->finish;
        take_text(choice, event->text);
        break;
    case ENGINE_EVENT_END:
        transcript->is_over = true;
        transcript->report = event->report;
        MUST(event->report.completion_tokens == transcript->tokens_so_far, "completion_tokens");
        break;
    case ENGINE_EVENT_PAUSED:
        MUST(!choice->is_paused && choice->finish == ENGINE_FINISH_NONE, "PAUSED");
        choice->is_paused = true;
        break;
    case ENGINE_EVENT_RESUMED:
        MUST(choice->is_paused, "RESUMED came without PAUSED");
        choice->is_paused = false;
        break;
    case ENGINE_EVENT_ERROR:
        MUST(!transcript->is_started, "ERROR came after START");
        transcript->is_over = true;
        transcript->is_refused = true;
        transcript->note = event->note;
        break;
    }
}

uint32_t engine_run_take(struct engine *engine)
{
    static struct engine_event event;
    uint32_t count = 0;
    while (engine_next_event(engine, &event)) {
        take_event(engine, &event);
        count++;
    }
    return count;
}

void engine_run_finish(struct engine *engine, struct engine_run_transcript *const *transcripts,
                       uint32_t count)
{
    int64_t last_us = clock_mono_us(clock_system());
    for (uint32_t over = 0; over < count;) {
        if (engine_run_take(engine) > 0) {
            last_us = clock_mono_us(clock_system());
        } else {
            MUST(clock_mono_us(clock_system()) - last_us < WAIT_US, "no event for a minute");
            usleep(NAP_US);
        }
        for (over = 0; over < count && transcripts[over]->is_over;)
            over++;
    }
}

void engine_run_acknowledge(struct engine *engine, struct engine_run_transcript *transcript)
{
    for (uint32_t i = 0; i < LIMIT_CHOICES; i++) {
        if (transcript->unacknowledged[i] > 0)
            engine_acknowledge(engine, transcript->id, i, transcript->unacknowledged[i]);
        transcript->unacknowledged[i] = 0;
    }
}

static bool same_tokens(const struct engine_run_token *a, const struct engine_run_token *b,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (a[i].token != b[i].token || memcmp(&a[i].logprob, &b[i].logprob, sizeof(float)) != 0 ||
            a[i].top_count != b[i].top_count ||
            memcmp(a[i].top, b[i].top, a[i].top_count * sizeof(a[i].top[0])) != 0)
            return false;
    return true;
}

bool engine_run_same(const struct engine_run_transcript *a, const struct engine_run_transcript *b)
{
    for (uint32_t i = 0; i < LIMIT_CHOICES; i++) {
        const struct engine_run_choice *x = &a->choices[i];
        const struct engine_run_choice *y = &b->choices[i];
        if (x->count != y->count || x->prompt_count != y->prompt_count || x->finish != y->finish ||
            x->text_bytes != y->text_bytes || memcmp(x->text, y->text, x->text_bytes) != 0 ||
            !same_tokens(x->tokens, y->tokens, x->count) ||
            !same_tokens(x->prompt, y->prompt, x->prompt_count))
            return false;
    }
    return a->is_refused == b->is_refused && a->note.status == b->note.status;
}
