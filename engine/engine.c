#include "engine/engine.h"
#include "engine/engine_constrain.h"
#include "engine/engine_pooling.h"
#include "engine/engine_show.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/populate.h"
#include "config/base/random_bytes.h"
#include "engine/answer/answer_format.h"
#include "engine/draft/draft_model.h"
#include "engine/models/gguf.h"
#include "engine/models/model.h"
#include "engine/models/model_units.h"
#include "engine/models/vocab.h"
#include "engine/ranks/rank_lead.h"
#include "engine/step/step.h"
#include "engine/step/step_explain.h"
#include "kernels/ranks.h"
#if BANYAN_TEXT
#include "engine/text/chat_template.h"
#include "engine/text/prepare.h"
#include "engine/text/tokenizer.h"
#endif

/* The fewest tokens of a page on any machine (kernels_kv.h). */
enum { PAGE_TOKENS_LEAST = 16 };

/* Pages that a device keeps free, so that a step need not wait for copies to host memory. */
enum { EXCHANGE_PAGES = 64 };

/* The engine thread works as one of the compute threads, so it gets their nice value (kernels). */
enum { ENGINE_NICE = 10 };

struct engine {
    struct step step; /* first: it needs 64-byte alignment */
    struct populate populate;
    struct ticket_table tickets;
    const struct clock *clock;
    struct model_source source; /* stays open: slices of templates and names point into it */
    struct vocab *vocab;
    struct kernels *kernels;
    struct model *model;
    struct ranks *ranks;              /* from the options */
    struct rank_lead *lead;           /* NULL = one rank */
    struct model_source draft_source; /* until the draft model is open */
    struct draft_model *draft_model;
    struct engine_constrain *constrain;
    struct kv_layout layout;
    char model_name[LIMIT_NAME_BYTES];
    int64_t created_wall_s;
    uint32_t context;
    enum engine_pooling pooling;
    bool has_unit_vectors;
    bool is_encoder;
    pthread_t thread;
    bool has_thread;
    struct answer_model answer;
    struct reasoning_marks reasoning; /* of `answer` */
    uint32_t marks[ANSWER_MARKS];     /* [mark_count] those of `answer` that are control tokens */
    uint32_t mark_count;
#if BANYAN_TEXT
    struct tokenizer *tokenizer;
    struct tokenizer_work *encoders[DRAWER_THREADS]; /* of forced text */
    struct chat_template *chat_template;
    struct prepare_model prepare_model;
    struct prepare *prepare;
#endif
    /* The consumer's: it turns the mark of an echo into one event for each prompt token. */
    struct {
        bool is_telling;
        uint32_t slot;
        uint32_t choice;
        uint32_t index;
        uint32_t tokens_so_far;
        struct text_decode decode;
        char text[TEXT_DECODE_BYTES];
    } echo;
};

/* --- opening --- */

/* The name that was given, or the last part of the path: of a file without its ending. */
static void open_name(struct engine *engine, const struct engine_options *options, bool is_folder)
{
    const char *name = options->model_name;
    if (name != NULL && name[0] != '\0') {
        snprintf(engine->model_name, sizeof(engine->model_name), "%s", name);
        return;
    }
    const char *path = options->model_path != NULL ? options->model_path : "model";
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    snprintf(engine->model_name, sizeof(engine->model_name), "%.*s", (int)(end - begin),
             path + begin);
    char *ending = strrchr(engine->model_name, '.');
    if (!is_folder && ending != NULL && ending != engine->model_name)
        *ending = '\0';
}

#if BANYAN_TEXT
static bool open_writes(const void *chat_template, struct slice text)
{
    return chat_template != NULL && chat_template_writes(chat_template, text);
}
#endif

#if BANYAN_TEXT
/* The operator's template or the file's. A template that cannot be used stops the start: another
 * one in its place would give wrong prompts without a word. */
static enum status open_template(struct engine *engine, const struct engine_options *options,
                                 struct slice *source)
{
    if (options->chat_template != NULL)
        *source = *options->chat_template;
    else if (gguf_has(engine->source.gguf, "tokenizer.chat_template"))
        TRY(gguf_get_string(engine->source.gguf, "tokenizer.chat_template", source));
    if (source->length == 0)
        return STATUS_OK;
    enum status status = chat_template_compile(&engine->chat_template, *source);
    if (status != STATUS_OK) {
        const struct error_note note = *status_note();
        FAIL(status,
             "the chat template of %s cannot be used: %.300s; --chat-template FILE gives another, "
             "and none serves completions only",
             options->chat_template != NULL ? "--chat-template" : "the model", note.message);
    }
    return STATUS_OK;
}
#endif

/* Finds how the model writes calls of tools, from the text of its template. */
static void open_answer(struct engine *engine, struct slice chat_template, bool takes_tools)
{
    answer_format_find(&engine->answer, chat_template, takes_tools, engine->vocab);
    for (size_t i = 0; i < ANSWER_MARKS; i++) {
        if (engine->answer.tokens[i] != VOCAB_NONE)
            engine->marks[engine->mark_count++] = engine->answer.tokens[i];
    }
}

static enum status open_text(struct engine *engine, const struct engine_options *options)
{
#if BANYAN_TEXT
    struct slice source = {NULL, 0};
    TRY(tokenizer_create(&engine->tokenizer, engine->vocab, engine->source.gguf));
    TRY(open_template(engine, options, &source));
    TRY(tokenizer_take_marks(engine->tokenizer, open_writes, engine->chat_template));
    engine->prepare_model = (struct prepare_model){.vocab = engine->vocab,
                                                   .tokenizer = engine->tokenizer,
                                                   .chat_template = engine->chat_template,
                                                   .clock = options->clock};
    if (engine->chat_template != NULL)
        prepare_probe(&engine->prepare_model);
    open_answer(engine, source, engine->prepare_model.takes.tools);
#else
    (void)options;
    open_answer(engine, (struct slice){0}, false);
#endif
    return STATUS_OK;
}

/* GGUF has no key that says that a model was trained for early exit, nor after which layer: the
 * operator says it. */
static enum status open_exit(const struct engine_options *options,
                             const struct model_config *config)
{
    if (options->speculation != ENGINE_SPECULATION_EXIT)
        return STATUS_OK;
    if (options->draft_layers < 1 || options->draft_layers >= config->layers)
        FAIL(STATUS_OUT_OF_RANGE,
             "early exit: --draft-layers is %u and must be 1 to %u, since the model has %u layers",
             options->draft_layers, config->layers - 1, config->layers);
    return STATUS_OK;
}

/* Opens the draft model's file; raises `cols_max` to its widest linear layer. */
static enum status open_draft_file(struct engine *engine, const struct engine_options *options,
                                   uint32_t *cols_max)
{
    struct model_config config;
    if (options->speculation != ENGINE_SPECULATION_MODEL)
        return STATUS_OK;
    if (options->draft_path == NULL)
        FAIL(STATUS_INVALID, "speculation by a draft model needs --draft-model FILE.gguf");
    if (options->draft_descriptor > 0)
        TRY(model_source_open_descriptor(&engine->draft_source, options->draft_descriptor));
    else
        TRY(model_source_open(&engine->draft_source, options->draft_path));
    TRY(model_config_read(&config, &engine->draft_source));
    uint32_t own = model_cols_max(&config);
    *cols_max = own > *cols_max ? own : *cols_max;
    return STATUS_OK;
}

static enum status open_draft_model(struct engine *engine, const struct engine_options *options)
{
    if (engine->draft_source.gguf == NULL)
        return STATUS_OK;
    const struct draft_model_options draft_options = {
        .source = &engine->draft_source,
        .vocab = engine->vocab,
        .kernels = engine->kernels,
        /* A draft model may take back more tokens than the one open group of a packed type. */
        .kv_type = engine->layout.open_bytes > 0 ? KV_TYPE_F16 : engine->layout.type,
        .page_tokens = engine->layout.page_tokens,
        .context = engine->context,
        .rows_max = options->rows_max,
        .places = step_places(options->sequences_max),
        .has_own_noise = options->acceptance == ENGINE_ACCEPTANCE_REJECTION,
    };
    TRY(draft_model_open(&engine->draft_model, &draft_options));
    model_source_close(&engine->draft_source);
    return STATUS_OK;
}

/* Page numbers of a step: each slot may have rows in it, with as many tokens as the context. */
static uint32_t open_tables_max(const struct engine *engine, const struct engine_options *options)
{
    const uint64_t places = step_places(options->sequences_max);
    const uint64_t texts = places < options->rows_max ? places : options->rows_max;
    const uint64_t pages = texts * (engine->context / PAGE_TOKENS_LEAST + 1);
    return pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
}

/* The same with the numbers of their window units. */
static uint32_t open_entries_max(const struct engine *engine, const struct engine_options *options,
                                 const struct model_config *config)
{
    const uint64_t entries =
        open_tables_max(engine, options) * (1 + (uint64_t)model_units_windows(config));
    return entries < UINT32_MAX ? (uint32_t)entries : UINT32_MAX;
}

static uint32_t open_page_tokens(const struct engine *engine, const struct engine_options *options)
{
    return options->page_tokens > 0 ? options->page_tokens : kernels_page_tokens(engine->kernels);
}

/* Compute threads of one rank. */
static uint32_t open_rank_threads(const struct engine_options *options)
{
    uint32_t all = options->threads > 0 ? options->threads : kernels_processors();
    uint32_t own = all / ranks_count(options->ranks);
    return own > 0 ? own : 1;
}

/* From here on the other ranks read their weights. */
static enum status open_lead(struct engine *engine, const struct engine_options *options,
                             const struct kernels_options *kernels_options, enum kv_type kv_type,
                             enum model_weights weights, uint32_t logit_rows_max)
{
    struct rank_setup setup = {.device = kernels_options->device,
                               .threads = kernels_options->threads,
                               .rows_max = kernels_options->rows_max,
                               .logit_rows_max = logit_rows_max,
                               .kv_type = kv_type,
                               .weights = weights,
                               .has_whole_experts = options->has_whole_experts,
                               .context = engine->context,
                               .page_tokens = open_page_tokens(engine, options),
                               .tables_max = kernels_options->tables_max,
                               .is_free = kernels_options->is_free};
    snprintf(setup.isa, sizeof setup.isa, "%s", kernels_isa(engine->kernels));
    engine->ranks = options->ranks;
    return options->ranks == NULL ? STATUS_OK
                                  : rank_lead_open(&engine->lead, options->ranks, &setup);
}

/* A text of an encoder is computed in one step, and all its rows may be wanted. Behind it the
 * scheduler keeps room for one token, which is none of the model's. */
static enum status open_encoder(struct engine *engine, const struct engine_options *options,
                                const struct model_config *config, uint32_t *logit_rows_max)
{
    engine->is_encoder = model_config_is_encoder(config);
    TRY(engine_pooling_check(engine->pooling, engine->is_encoder));
    TRY(engine_pooling_normalises(&engine->has_unit_vectors, &engine->source));
    if (!engine->is_encoder)
        return STATUS_OK;
    if (options->rows_max < engine->context)
        FAIL(STATUS_OUT_OF_RANGE,
             "--batch-rows is %u: a text of %u tokens is computed in one step; give more rows, or "
             "a smaller --context",
             options->rows_max, engine->context);
    if (options->speculation != ENGINE_SPECULATION_OFF)
        FAIL(STATUS_UNSUPPORTED, "an encoder generates nothing: --speculation is not supported");
    *logit_rows_max = options->rows_max;
    engine->context++;
    return STATUS_OK;
}

static enum status open_model(struct engine *engine, const struct engine_options *options,
                              uint32_t logit_rows_max)
{
    const int64_t begin_us = clock_mono_us(engine->clock);
    struct model_config config;
    struct model_share share;
    enum kv_type kv_type = KV_TYPE_F16;
    enum model_weights weights = MODEL_WEIGHTS_FILE;
    if (options->kv_type != NULL)
        TRY(kernels_kv_type_find(&kv_type, options->kv_type));
    if (options->weights != NULL)
        TRY(model_weights_find(&weights, options->weights));
    if (options->model_descriptor >= 0)
        TRY(model_source_open_descriptor(&engine->source, options->model_descriptor));
    else
        TRY(model_source_open(&engine->source, options->model_path));
    TRY(vocab_create(&engine->vocab, engine->source.gguf));
    TRY(open_text(engine, options));
    TRY(model_config_read(&config, &engine->source));
    TRY(model_config_check_kv(&config, kv_type));
    TRY(engine_pooling_find(&engine->pooling, options->embeddings, &engine->source));
    if (options->context > config.context)
        FAIL(STATUS_OUT_OF_RANGE, "a context of %u tokens was asked for; the model has %u",
             options->context, config.context);
    engine->context = options->context > 0 ? options->context : config.context;
    TRY(open_encoder(engine, options, &config, &logit_rows_max));
    if (engine->context < 2)
        FAIL(STATUS_OUT_OF_RANGE, "a context of %u tokens: at least 2 are needed", engine->context);
    TRY(open_exit(options, &config));
    TRY(model_share_of(&share, &config, 0, ranks_count(options->ranks)));
    if (options->has_whole_experts)
        TRY(model_share_whole_experts(&share, &config));
    uint32_t cols_max = model_cols_max(&config);
    TRY(open_draft_file(engine, options, &cols_max));
    const struct kernels_options kernels_options = {
        .isa = options->isa,
        .threads = open_rank_threads(options),
        .rows_max = options->rows_max,
        .cols_max = cols_max,
        .device = options->device,
        .is_free = options->is_free,
        .tables_max = open_entries_max(engine, options, &config),
        .ranks = options->ranks,
    };
    TRY(kernels_create(&engine->kernels, &kernels_options));
    TRY(open_lead(engine, options, &kernels_options, kv_type, weights, logit_rows_max));
    const struct model_options model_options = {.rows_max = options->rows_max,
                                                .logit_rows_max = logit_rows_max,
                                                .context = engine->context - engine->is_encoder,
                                                .weights = weights,
                                                .has_states =
                                                    engine->pooling != ENGINE_POOLING_NONE};
    TRY(model_open_share(&engine->model, engine->kernels, &engine->source, &model_options, &share));
    model_source_forget(&engine->source); /* the weights are packed: the file is not read again */
    LOG(LOG_INFO, "model_ready", LOG_NUMBER("mib", config.weight_bytes >> 20),
        LOG_NUMBER("ms", (clock_mono_us(engine->clock) - begin_us) / 1000));
    if (model_config(engine->model)->vocab != vocab_size(engine->vocab))
        FAIL(STATUS_CORRUPT, "the model has logits for %u tokens, but its vocabulary has %u",
             model_config(engine->model)->vocab, vocab_size(engine->vocab));
    return model_units_layout(engine->kernels, &config, share.kv_heads, kv_type,
                              open_page_tokens(engine, options), &engine->layout);
}

#if BANYAN_TEXT
/* No control token is matched: a grammar forces text. */
static enum status open_encode_text(void *context, struct slice text, uint32_t *ids,
                                    size_t capacity, size_t *count)
{
    return tokenizer_work_encode(context, text, ids, capacity, count);
}
#endif

/* Forced text becomes tokens by the tokenizer of prompts. Each thread that makes masks has memory
 * of its own for it, so that a step takes none from the system. */
static enum status open_encode(struct engine *engine, struct step_options *options)
{
    (void)engine, (void)options;
#if BANYAN_TEXT
    if (engine->tokenizer == NULL)
        return STATUS_OK;
    options->encode = open_encode_text;
    for (uint32_t i = 0; i < DRAWER_THREADS; i++) {
        TRY(tokenizer_work_create(&engine->encoders[i], engine->tokenizer));
        options->encode_contexts[i] = engine->encoders[i];
    }
#endif
    return STATUS_OK;
}

/* How `answer` marks reasoning and calls; a closing mark that is text is forced as the tokenizer
 * writes it. */
static void open_reasoning(struct engine *engine, struct step_options *options)
{
    _Static_assert((uint32_t)REASONING_NO_TOKEN == (uint32_t)VOCAB_NONE, "both are no token");
    _Static_assert((int)REASONING_MARK_BYTES >= (int)ANSWER_MARK_BYTES, "a token for each byte");
    const struct answer_model *answer = &engine->answer;
    struct reasoning_marks *marks = &engine->reasoning;
    const struct {
        struct reasoning_mark *to;
        enum answer_mark from;
    } all[] = {{&marks->open, ANSWER_REASON_OPEN},
               {&marks->close, ANSWER_REASON_CLOSE},
               {&marks->call_open, ANSWER_CALL_OPEN},
               {&marks->call_close, ANSWER_CALL_CLOSE}};
    if (answer->format == NULL || !answer->has_reasoning)
        return;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        *all[i].to = (struct reasoning_mark){answer->format->marks[all[i].from],
                                             answer->tokens[all[i].from]};
    size_t count = 0;
    if (marks->close.token != VOCAB_NONE)
        marks->close_tokens[count++] = marks->close.token;
    else if (marks->close.text != NULL && options->encode != NULL &&
             options->encode(options->encode_contexts[0], slice_of(marks->close.text),
                             marks->close_tokens, REASONING_MARK_BYTES, &count) != STATUS_OK)
        count = 0;
    marks->close_count = (uint32_t)count;
    options->reasoning = count > 0 ? marks : NULL;
}

static enum status open_step(struct engine *engine, const struct engine_options *options,
                             uint32_t logit_rows_max)
{
    TRY(ticket_table_init(&engine->tickets, LIMIT_REQUESTS_IN_ENGINE,
                          LIMIT_REQUEST_BYTES_IN_ENGINE));
    engine->tickets.tenant_max = LIMIT_TENANT_REQUESTS_IN_ENGINE;
    uint64_t cache_seed = 0;
    random_bytes(&cache_seed, sizeof(cache_seed));
    static const enum scheduler_mode modes[] = {
        [ENGINE_BATCHING_CONTINUOUS] = SCHEDULER_CONTINUOUS,
        [ENGINE_BATCHING_WINDOW] = SCHEDULER_WINDOW,
        [ENGINE_BATCHING_STATIC] = SCHEDULER_STATIC,
    };
    struct step_options step_options = {
        .kernels = engine->kernels,
        .model = engine->model,
        .vocab = engine->vocab,
        .marks = engine->marks,
        .mark_count = engine->mark_count,
        .layout = &engine->layout,
        .tickets = &engine->tickets,
        .clock = engine->clock,
        .metrics = options->metrics,
        .metrics_label = options->metrics_label,
        .index = options->index,
        .pulse = options->pulse,
        .wake = options->wake,
        .wake_context = options->wake_context,
        .ranks = ranks_count(options->ranks),
        .kv_bytes = options->kv_bytes / ranks_count(options->ranks),
        .context = engine->context,
        .rows_max = options->rows_max,
        .logit_rows_max = logit_rows_max,
        .sequences_max = options->sequences_max,
        .mode = modes[options->batching],
        .step_ms = options->step_ms,
        .urgent_step_ms = options->urgent_step_ms,
        .shared_us = options->shared_step_ms * 1000,
        .class_floor_percent = options->class_floor_percent,
        .fair_quantum = options->fair_quantum,
        .preemption = options->preemption,
        .speculation = options->speculation,
        .acceptance = options->acceptance,
        .draft_model = engine->draft_model,
        .draft_layers = options->draft_layers,
        /* What an encoder has of a token depends on those behind it. */
        .no_prefix_cache = options->no_prefix_cache || engine->is_encoder,
        .kv_host_bytes = options->kv_host_bytes / ranks_count(options->ranks),
        .exchange_pages = kernels_is_device(engine->kernels) ? EXCHANGE_PAGES : 0,
        .pin_percent = options->pin_percent,
        .cache_seed = cache_seed,
        .pooling = engine->pooling,
        .is_encoder = engine->is_encoder,
        .has_unit_vectors = engine->has_unit_vectors,
    };
    enum status status = open_encode(engine, &step_options);
    open_reasoning(engine, &step_options);
    if (status == STATUS_OK)
        status = engine_constrain_new(engine->vocab, &engine->answer, options->grammar_bytes,
                                      options->metrics, options->metrics_label, &engine->constrain);
    model_watch(engine->model, options->pulse, PULSE_ENGINE + options->index);
    if (status == STATUS_OK)
        status = step_init(&engine->step, &step_options);
    if (status != STATUS_OK)
        ticket_table_deinit(&engine->tickets);
    return status;
}

/* From here on the other ranks compute what this rank computes. */
static enum status open_ranks(struct engine *engine, const struct engine_options *options)
{
    if (engine->lead == NULL)
        return STATUS_OK;
    const struct step *step = &engine->step;
    const struct kv_pool *pool = &step->pool;
    const struct kv_host *host = &step->cache.host;
    const struct rank_areas areas = {
        .memory = {[RANK_POOL] = pool->memory,
                   [RANK_HOST] = host->memory,
                   [RANK_OPEN] = step->open.memory},
        .bytes = {[RANK_POOL] = pool->unit_count * pool->layout.page_bytes,
                  [RANK_HOST] = (uint64_t)host->unit_count * host->page_bytes,
                  [RANK_OPEN] = kv_open_bytes(&step->open, &pool->layout)}};
    TRY(rank_lead_begin(engine->lead, engine->kernels, engine->model, &areas, step->places,
                        open_tables_max(engine, options)));
    LOG(LOG_INFO, "tensor_parallel", LOG_NUMBER("ranks", ranks_count(engine->ranks)),
        LOG_NUMBER("kv_heads_each", pool->layout.kv_heads),
        LOG_NUMBER("threads_each", kernels_threads(engine->kernels)));
    return STATUS_OK;
}

static void *open_thread(void *context)
{
    struct engine *engine = context;
    kernels_attach(engine->kernels);
    /* On Linux 0 means this thread alone. The engine works without the nice value too. */
    if (setpriority(PRIO_PROCESS, 0, ENGINE_NICE) != 0)
        LOG(LOG_DEBUG, "engine_nice_refused", LOG_NUMBER("errno", errno));
    step_run(&engine->step);
    return NULL;
}

#if BANYAN_TEXT
static void open_prepare_work(void *context, uint32_t slot);
#endif

static enum status open_threads(struct engine *engine)
{
    if (pthread_create(&engine->thread, NULL, open_thread, engine) != 0)
        FAIL(STATUS_NO_MEMORY, "the engine thread could not be started");
    engine->has_thread = true;
#if BANYAN_TEXT
    TRY(prepare_create(&engine->prepare, LIMIT_REQUESTS_IN_ENGINE, engine->clock, open_prepare_work,
                       engine));
#endif
    return STATUS_OK;
}

static void open_metrics(const struct engine *engine, const struct engine_options *options)
{
    if (options->metrics == NULL)
        return;
    const char *label = options->metrics_label;
    char labels[128];
    snprintf(labels, sizeof(labels), "%s%sisa=\"%s\",backend=\"%s\"", label != NULL ? label : "",
             label != NULL ? "," : "", kernels_isa(engine->kernels),
             kernels_is_device(engine->kernels) ? "cuda" : "cpu");
    metric_set(metrics_get(options->metrics, METRIC_GAUGE, "banyan_kernel_info",
                           "The table of kernels in use.", labels, NULL, 0),
               1);
    metric_set(metrics_get(options->metrics, METRIC_GAUGE, "banyan_tensor_parallel_ranks",
                           "Processes that compute the model, a share each.",
                           label != NULL ? label : "", NULL, 0),
               ranks_count(engine->ranks));
}

/* Touches all pages once: the cache goes through the whole pool, and no step should pay for the
 * first touch of a page. If the thread cannot start, the steps pay; nothing else changes. */
static void open_populate(struct engine *engine)
{
    const struct kv_pool *pool = &engine->step.pool;
    const struct kv_host *host = &engine->step.cache.host;
    if (kernels_is_device(engine->kernels))
        return; /* device memory and pinned host memory are resident already */
    const struct populate_range ranges[] = {
        {pool->memory, pool->unit_count * pool->layout.page_bytes},
        {host->memory, host->unit_count * host->page_bytes},
    };
    (void)populate_start(&engine->populate, ranges, 2);
}

enum status engine_open(struct engine **out, const struct engine_options *options)
{
    enum status status = STATUS_OK;
    struct engine *engine = NULL;
    struct stat file;
    ASSERT(options->clock != NULL);
    ASSERT(options->model_path != NULL || options->model_descriptor >= 0);
    if (options->rows_max < 1 || options->sequences_max < 1)
        FAIL(STATUS_OUT_OF_RANGE, "rows_max and sequences_max must be at least 1");
    engine = mem_alloc_aligned(64, (sizeof(*engine) + 63) & ~(size_t)63);
    if (engine == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the engine");
    memset(engine, 0, sizeof(*engine));
    engine->clock = options->clock;
    int unread = options->model_descriptor >= 0 ? fstat(options->model_descriptor, &file)
                                                : stat(options->model_path, &file);
    if (unread == 0) /* else opening the file says why */
        engine->created_wall_s = file.st_mtime;
    open_name(engine, options, unread == 0 && S_ISDIR(file.st_mode));
    /* Every running sequence may need a row of logits. An echo is cut into chunks of the rows left;
     * 64 of them are enough to keep the matrix kernels busy. */
    uint32_t logit_rows_max = options->sequences_max > 64 ? options->sequences_max : 64;
    if (logit_rows_max > options->rows_max)
        logit_rows_max = options->rows_max;
    TRY_OUT(open_model(engine, options, logit_rows_max));
    TRY_OUT(open_draft_model(engine, options));
    if (engine->is_encoder)
        logit_rows_max = options->rows_max;
    TRY_OUT(open_step(engine, options, logit_rows_max));
    TRY_OUT(open_ranks(engine, options));
    open_metrics(engine, options);
    TRY_OUT(open_threads(engine));
    open_populate(engine);
    *out = engine;
out:
    if (status != STATUS_OK)
        engine_close(engine);
    return status;
}

void engine_close(struct engine *engine)
{
    if (engine == NULL)
        return;
#if BANYAN_TEXT
    prepare_destroy(engine->prepare);
#endif
    if (engine->has_thread) {
        atomic_store(&engine->step.is_closing, true);
        inbox_ring(&engine->step.inbox);
        pthread_join(engine->thread, NULL);
    }
    if (engine->kernels != NULL)
        kernels_attach(engine->kernels); /* another engine's device may be current here */
    populate_stop(&engine->populate);
    rank_lead_close(engine->lead);
    if (engine->tickets.slots != NULL) {
        step_deinit(&engine->step);
        ticket_table_deinit(&engine->tickets);
    }
    engine_constrain_free(engine->constrain);
    draft_model_close(engine->draft_model);
    model_source_close(&engine->draft_source);
    if (engine->model != NULL)
        model_close(engine->model);
    if (engine->kernels != NULL)
        kernels_destroy(engine->kernels);
#if BANYAN_TEXT
    if (engine->chat_template != NULL)
        chat_template_destroy(engine->chat_template);
    for (uint32_t i = 0; i < DRAWER_THREADS; i++)
        tokenizer_work_destroy(engine->encoders[i]);
    if (engine->tokenizer != NULL)
        tokenizer_destroy(engine->tokenizer);
#endif
    if (engine->vocab != NULL)
        vocab_destroy(engine->vocab);
    model_source_close(&engine->source);
    mem_free(engine);
}

void engine_info(const struct engine *engine, struct engine_info *out)
{
    *out = (struct engine_info){
        .model_name = engine->model_name,
        .context = engine->context - engine->is_encoder,
        .vocab = vocab_size(engine->vocab),
        .isa = kernels_isa(engine->kernels),
        .threads = kernels_threads(engine->kernels),
        .has_bf16_dots = kernels_has_dots(engine->kernels),
        .created_wall_s = engine->created_wall_s,
        .kv_pages = engine->step.pool.unit_count,
        .ranks = ranks_count(engine->ranks),
        .pin_pages = engine->step.cache.pin_units_max,
        .pooling = engine->pooling,
        .width = model_config(engine->model)->width,
        .sequences = engine->step.options.sequences_max,
    };
}

uint32_t engine_pages_pinned_by(const struct engine *engine, uint32_t tokens)
{
    return kv_pool_units_kept(&engine->step.pool, tokens);
}

/* --- text services --- */

#if BANYAN_TEXT
static enum status tokenize_status(enum status status, size_t ids_max)
{
    if (status != STATUS_LIMIT)
        return status;
    FAIL(STATUS_CONTEXT_LENGTH, "the text has more than %zu tokens", ids_max);
}
#endif

enum status engine_tokenize(struct engine *engine, struct slice text, bool add_special,
                            size_t ids_max, uint32_t **ids, size_t *count)
{
#if BANYAN_TEXT
    return tokenize_status(prepare_text(&engine->prepare_model, text,
                                        add_special ? PREPARE_PROMPT : PREPARE_PLAIN, ids_max, ids,
                                        count),
                           ids_max);
#else
    (void)engine, (void)text, (void)add_special, (void)ids_max, (void)ids, (void)count;
    FAIL(STATUS_UNSUPPORTED, "this build takes token ids only (built without PCRE2)");
#endif
}

enum status engine_tokenize_chat(struct engine *engine, const struct engine_message *messages,
                                 size_t message_count, bool add_generation_prompt, size_t ids_max,
                                 uint32_t **ids, size_t *count)
{
#if BANYAN_TEXT
    return tokenize_status(prepare_chat(&engine->prepare_model, messages, message_count, NULL,
                                        add_generation_prompt, ids_max, ids, count),
                           ids_max);
#else
    (void)engine, (void)messages, (void)message_count, (void)add_generation_prompt;
    (void)ids_max, (void)ids, (void)count;
    FAIL(STATUS_UNSUPPORTED, "this build takes token ids only (built without PCRE2)");
#endif
}

enum status engine_detokenize(struct engine *engine, const uint32_t *ids, size_t count,
                              bool shows_control, struct buffer *out)
{
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < vocab_size(engine->vocab))
            continue;
        char param[STATUS_PARAM_BYTES];
        snprintf(param, sizeof(param), "tokens[%zu]", i);
        FAIL_PARAM(STATUS_OUT_OF_RANGE, param, "token %u at %s: the model has tokens 0 to %u",
                   ids[i], param, vocab_size(engine->vocab) - 1);
    }
    struct text_decode decode = {0};
    char text[TEXT_DECODE_BYTES];
    for (size_t i = 0; i < count; i++) {
        if (!shows_control && vocab_is_control(engine->vocab, ids[i]))
            continue;
        struct slice bytes = vocab_text(engine->vocab, i > 0 ? ids[i - 1] : VOCAB_NONE, ids[i]);
        buffer_append(out, text, text_decode_push(&decode, bytes, text));
    }
    buffer_append(out, text, text_decode_flush(&decode, text));
    return out->status;
}

struct slice engine_token_bytes(struct engine *engine, uint32_t id)
{
    return vocab_bytes(engine->vocab, id);
}

/* --- requests --- */

#if BANYAN_TEXT
/* Whether the prompt ends with the mark that opens reasoning, and white space at most. */
static bool submit_in_reasoning(const struct engine *engine, const struct ticket *ticket)
{
    enum { TAIL_BYTES = 2 * ANSWER_MARK_BYTES };
    const char *mark = engine->answer.format->marks[ANSWER_REASON_OPEN];
    char tail[TAIL_BYTES];
    size_t from = TAIL_BYTES;
    if (!engine->answer.has_reasoning || mark == NULL)
        return false;
    for (uint32_t i = ticket->prompt_count; i > 0 && from > 0; i--) {
        struct slice bytes = vocab_bytes(engine->vocab, ticket->prompt[i - 1]);
        while (bytes.length > 0 && from > 0) {
            char byte = bytes.bytes[--bytes.length];
            bool is_blank = byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
            if (!is_blank || from < TAIL_BYTES)
                tail[--from] = byte;
        }
    }
    const size_t length = strlen(mark);
    return TAIL_BYTES - from >= length && memcmp(tail + TAIL_BYTES - length, mark, length) == 0;
}

/* Where the prompt has opened reasoning, the grammar of calls goes on behind that mark. */
static enum status submit_open_reasoning(struct engine *engine, struct ticket *ticket)
{
    const struct engine_constraint *constraint = &ticket->asked.constraint;
    const struct answer_model *answer = &engine->answer;
    if (!constraint->is_set || !constraint->is_calls || !ticket->is_in_reasoning)
        return STATUS_OK;
    const uint32_t token = answer->tokens[ANSWER_REASON_OPEN];
    const struct slice text = slice_of(answer->format->marks[ANSWER_REASON_OPEN]);
    for (uint32_t i = 0; i < ticket->asked.choices; i++) {
        struct guard *guard = &ticket->guards[i];
        if (!(token != VOCAB_NONE ? guard_take(guard, token) : guard_begin(guard, text)))
            FAIL(STATUS_INVALID_GRAMMAR, "the grammar of calls has no place for reasoning");
    }
    return STATUS_OK;
}
#endif

/* Makes the prompt's tokens and checks the request, on the calling thread. */
static enum status submit_prepare(struct engine *engine, uint32_t slot)
{
    struct ticket *ticket = &engine->tickets.slots[slot];
    const struct engine_request *asked = &ticket->asked;
    uint32_t vocab = vocab_size(engine->vocab);
    TRY(ticket_check_asked(ticket, vocab));
    if (engine->is_encoder && asked->pooling == ENGINE_POOLING_NONE)
        FAIL_PARAM(STATUS_UNSUPPORTED, "model",
                   "This model gives embeddings alone: use /v1/embeddings.");
    if (asked->pooling != ENGINE_POOLING_NONE && asked->pooling != engine->pooling)
        FAIL_PARAM(STATUS_UNSUPPORTED, "model", "the model gives no embeddings of this kind");
    if (asked->constraint.is_set)
        TRY(engine_constrain_take(engine->constrain, &engine->tickets, slot));
    if (asked->prompt_kind == ENGINE_PROMPT_TOKENS)
        return ticket_take_tokens(&engine->tickets, slot, vocab, engine->context);
    uint32_t *ids = NULL;
    size_t count = 0;
#if BANYAN_TEXT
    enum status status =
        asked->prompt_kind == ENGINE_PROMPT_CHAT
            ? prepare_chat(&engine->prepare_model, asked->messages, asked->message_count,
                           &asked->inputs, true, engine->context, &ids, &count)
            : prepare_text(&engine->prepare_model, asked->text,
                           asked->pooling != ENGINE_POOLING_NONE ? PREPARE_WHOLE : PREPARE_PROMPT,
                           engine->context, &ids, &count);
    if (status == STATUS_LIMIT)
        return ticket_fail_context(ticket, engine->context);
    TRY(status);
    TRY(ticket_take_prompt(&engine->tickets, slot, ids, count, engine->context));
    ticket->is_in_reasoning = asked->wants_marks && submit_in_reasoning(engine, ticket);
    return submit_open_reasoning(engine, ticket);
#else
    (void)ids, (void)count;
    FAIL_PARAM(STATUS_UNSUPPORTED, "prompt",
               "this build takes prompts as token ids only (built without PCRE2)");
#endif
}

static void submit_hand_over(struct engine *engine, uint32_t slot)
{
    struct ticket *ticket = &engine->tickets.slots[slot];
    /* The engine thread looks for a cancel first, so a cancelled request needs no tokens. */
    if (!ticket_is_cancelled(ticket) && submit_prepare(engine, slot) != STATUS_OK)
        ticket->refusal = *status_note();
    inbox_push(&engine->step.inbox, slot);
}

#if BANYAN_TEXT
static void open_prepare_work(void *context, uint32_t slot)
{
    submit_hand_over(context, slot);
}
#endif

enum status engine_submit(struct engine *engine, const struct engine_request *request,
                          engine_request_id *out)
{
    uint32_t slot;
    TRY(ticket_acquire(&engine->tickets, request, clock_mono_us(engine->clock), &slot, out));
#if BANYAN_TEXT
    if (request->prompt_kind != ENGINE_PROMPT_TOKENS || request->constraint.is_set) {
        prepare_push(engine->prepare, slot, request);
        return STATUS_OK;
    }
#endif
    submit_hand_over(engine, slot);
    return STATUS_OK;
}

void engine_lower(struct engine *engine, engine_request_id id)
{
    if (ticket_lower(&engine->tickets, id))
        inbox_ring(&engine->step.inbox);
}

void engine_cancel(struct engine *engine, engine_request_id id)
{
    if (ticket_cancel(&engine->tickets, id))
        inbox_ring(&engine->step.inbox);
}

enum status engine_unpublish(struct engine *engine, const struct engine_domain *domain)
{
    if (!ring_push(&engine->step.unpublished, domain))
        FAIL(STATUS_BUSY, "too many prompts are being unpublished; try again shortly");
    inbox_ring(&engine->step.inbox);
    return STATUS_OK;
}

void engine_acknowledge(struct engine *engine, engine_request_id id, uint32_t choice,
                        uint32_t tokens)
{
    if (ticket_acknowledge(&engine->tickets, id, choice, tokens))
        inbox_ring(&engine->step.inbox);
}

const struct answer_model *engine_answer(const struct engine *engine)
{
    return &engine->answer;
}

const char *engine_finish_name(enum engine_finish finish)
{
    switch (finish) {
    case ENGINE_FINISH_NONE:
        return "none";
    case ENGINE_FINISH_STOP:
        return "stop";
    case ENGINE_FINISH_LENGTH:
        return "length";
    case ENGINE_FINISH_CANCELLED:
        return "cancelled";
    case ENGINE_FINISH_DEADLINE:
        return "deadline";
    case ENGINE_FINISH_ERROR:
        return "error";
    case ENGINE_FINISH_GRAMMAR:
        return "grammar";
    }
    ASSERT(false);
    return "";
}

/* --- events --- */

/* Makes the event of the next prompt token of an echo. */
static void next_event_echo(struct engine *engine, struct engine_event *out)
{
    struct ticket *ticket = &engine->tickets.slots[engine->echo.slot];
    uint32_t index = engine->echo.index++;
    out->kind = ENGINE_EVENT_PROMPT;
    out->id = atomic_load_explicit(&ticket->id, memory_order_relaxed);
    out->context = ticket->asked.context;
    out->choice = engine->echo.choice;
    out->tokens_so_far = engine->echo.tokens_so_far;
    out->token = ticket->prompt[index];
    struct slice bytes = {0};
    uint32_t previous = index > 0 ? ticket->prompt[index - 1] : VOCAB_NONE;
    if (ticket->asked.shows_control || !vocab_is_control(engine->vocab, out->token))
        bytes = vocab_text(engine->vocab, previous, out->token);
    out->text_offset = text_decode_offset(&engine->echo.decode, bytes);
    out->text = (struct slice){engine->echo.text,
                               text_decode_push(&engine->echo.decode, bytes, engine->echo.text)};
    if (ticket->scores != NULL && index > 0) {
        const struct ticket_score *score = ticket_score_at(ticket, engine->echo.choice, index);
        out->logprob = score->logprob;
        out->top_count = score->top_count;
        memcpy(out->top, score->top, score->top_count * sizeof(out->top[0]));
    }
    engine->echo.is_telling = engine->echo.index < ticket->prompt_count;
}

/* Counts a record as taken. The engine thread sleeps on this only when a sequence has reached the
 * bound of records or needs a slot, so it is woken only twice in LIMIT_UNDELIVERED_TOKENS records
 * and at the end of a choice. */
static void next_event_taken(struct engine *engine, const struct outbox_record *record)
{
    if (record->sequence == SEQUENCE_NONE)
        return;
    struct sequence *sequence = &engine->step.sequences.slots[record->sequence];
    uint32_t taken =
        atomic_fetch_add_explicit(&sequence->records_taken, 1, memory_order_release) + 1;
    if (record->kind == ENGINE_EVENT_CHOICE_END || taken % (LIMIT_UNDELIVERED_TOKENS / 2) == 0)
        inbox_ring(&engine->step.inbox);
}

static void next_event_clear(struct engine_event *out)
{
    out->choice = 0;
    out->token = 0;
    out->logprob = 0;
    out->top_count = 0;
    out->text = (struct slice){0};
    out->text_offset = 0;
    out->is_mark = false;
    out->is_in_reasoning = false;
    memset(out->unconstrained, 0, sizeof out->unconstrained);
    out->finish = ENGINE_FINISH_NONE;
    out->report = (struct engine_report){0};
    out->note.status = STATUS_OK;
    out->note.param[0] = '\0';
    out->note.message[0] = '\0';
}

bool engine_has_failed(const struct engine *engine)
{
    return atomic_load(&engine->step.is_failed);
}

bool engine_next_event(struct engine *engine, struct engine_event *out)
{
    if (engine->echo.is_telling) {
        next_event_clear(out);
        next_event_echo(engine, out);
        return true;
    }
    const struct engine_logprob *top;
    struct slice text;
    const struct outbox_record *record = outbox_next(&engine->step.outbox, &top, &text);
    if (record == NULL)
        return false;
    struct ticket *ticket = &engine->tickets.slots[record->slot];
    next_event_clear(out);
    next_event_taken(engine, record);
    if (record->kind == ENGINE_EVENT_PROMPT) {
        engine->echo.slot = record->slot;
        engine->echo.choice = record->choice;
        engine->echo.index = 0;
        engine->echo.decode = (struct text_decode){0};
        engine->echo.tokens_so_far = record->tokens_so_far;
        next_event_echo(engine, out);
        return true;
    }
    out->kind = record->kind;
    out->id = atomic_load_explicit(&ticket->id, memory_order_relaxed);
    out->context = ticket->asked.context;
    out->choice = record->choice;
    out->tokens_so_far = record->tokens_so_far;
    out->token = record->token;
    out->logprob = record->logprob;
    out->top_count = record->top_count;
    memcpy(out->top, top, record->top_count * sizeof(*top));
    out->text = text;
    out->text_offset = record->text_offset;
    out->is_mark = record->is_mark;
    out->finish = record->finish;
    if (record->kind == ENGINE_EVENT_START) {
        out->is_in_reasoning = ticket->is_in_reasoning;
        memcpy(out->unconstrained, ticket->unconstrained, sizeof out->unconstrained);
        out->report.prompt_tokens = ticket->prompt_count;
        out->report.queue_us = ticket->queue_us;
        out->report.cached_tokens = atomic_load(&ticket->shown_cached);
    } else if (record->kind == ENGINE_EVENT_END) {
        out->report = ticket->report_end;
        ticket_release(&engine->tickets, record->slot);
    } else if (record->kind == ENGINE_EVENT_ERROR) {
        out->note = ticket->refusal;
        ticket_release(&engine->tickets, record->slot);
    }
    return true;
}

void engine_stats(struct engine *engine, struct engine_stats *out)
{
    struct step_figures *figures = &engine->step.figures;
    *out = (struct engine_stats){
        .requests = engine->tickets.count - atomic_load(&engine->tickets.free_count),
        .sequences_running = atomic_load(&figures->running),
        .sequences_waiting = atomic_load(&figures->waiting),
        .sequences_throttled = atomic_load(&figures->throttled),
        .preemptions_swap = atomic_load(&figures->preemptions_swap),
        .preemptions_recompute = atomic_load(&figures->preemptions_recompute),
        .swap_bytes_out = atomic_load(&figures->swap_bytes_out),
        .swap_bytes_in = atomic_load(&figures->swap_bytes_in),
        .swap_us = atomic_load(&figures->swap_us),
        .tokens_overhead = atomic_load(&figures->tokens_overhead),
        .pages_free = atomic_load(&figures->pages_free),
        .pages_cached = atomic_load(&figures->pages_idle),
        .pages_pinned = atomic_load(&figures->pages_pinned),
        .pages_host = atomic_load(&figures->pages_host),
        .prefix_followers = atomic_load(&figures->followers),
        .cache_query_tokens = atomic_load(&figures->cache_query_tokens),
        .cache_hit_tokens = atomic_load(&figures->cache_hit_tokens),
        .pages_total = engine->step.pool.unit_count,
        .steps = atomic_load(&figures->steps),
        .rows = atomic_load(&figures->rows),
        .tokens_prompt = atomic_load(&figures->tokens_prompt),
        .tokens_generated = atomic_load(&figures->tokens_generated),
    };
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        struct step_figures_class *of = &figures->by_class[i];
        out->by_class[i] = (struct engine_class_stats){
            .waiting = atomic_load(&of->waiting),
            .running = atomic_load(&of->running),
            .paused = atomic_load(&of->paused),
            .throttled = atomic_load(&of->throttled),
        };
    }
}

/* --- what is under way --- */

size_t engine_published(struct engine *engine, struct engine_published *out, size_t count)
{
    struct step *step = &engine->step;
    pthread_mutex_lock(&step->published_lock);
    size_t shown = step->published_count < count ? step->published_count : count;
    for (size_t i = 0; i < shown; i++)
        out[i] = (struct engine_published){.domain = step->published[i].domain,
                                           .pages = step->published[i].pages,
                                           .hits = step->published[i].hits,
                                           .hit_tokens = step->published[i].hit_tokens};
    pthread_mutex_unlock(&step->published_lock);
    return shown;
}

const char *engine_request_state_name(enum engine_request_state state)
{
    static const char *const names[] = {
        [ENGINE_REQUEST_PREPARING] = "preparing", [ENGINE_REQUEST_WAITING] = "waiting",
        [ENGINE_REQUEST_FOLLOWING] = "following", [ENGINE_REQUEST_PREFILL] = "prefill",
        [ENGINE_REQUEST_DECODE] = "decode",       [ENGINE_REQUEST_THROTTLED] = "throttled",
        [ENGINE_REQUEST_PAUSED] = "paused",
    };
    ASSERT((uint32_t)state < sizeof(names) / sizeof(names[0]));
    return names[state];
}

/* Milliseconds until the first token of a request with `before` others before it; 0 = not known. */
static uint32_t requests_estimate_ms(struct engine *engine, const struct engine_request_info *row,
                                     uint32_t before)
{
    struct step_figures *figures = &engine->step.figures;
    uint64_t gap_us = atomic_load(&figures->gap_us[row->service_class]);
    uint64_t row_ns = atomic_load(&figures->row_ns);
    if (row_ns == 0 || (gap_us == 0 && before > 0))
        return 0;
    return step_explain_coarse((gap_us * before + row_ns * row->prompt_tokens / 1000) / 1000);
}

/* Fills in position and estimate. The order within a class is approximated by age. */
static void requests_place(struct engine *engine, struct engine_request_info *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t before = 0;
        for (size_t j = 0; j < count && rows[i].state == ENGINE_REQUEST_WAITING; j++)
            before += rows[j].state == ENGINE_REQUEST_WAITING &&
                              rows[j].service_class == rows[i].service_class &&
                              rows[j].age_us > rows[i].age_us
                          ? 1
                          : 0;
        rows[i].position = step_explain_coarse(before);
        if (rows[i].state == ENGINE_REQUEST_WAITING)
            rows[i].estimate_ms = requests_estimate_ms(engine, &rows[i], before);
    }
}

static void requests_show(struct engine *engine, struct ticket *ticket, engine_request_id id,
                          struct engine_request_info *out)
{
    const struct engine_request *asked = &ticket->asked;
    *out = (struct engine_request_info){
        .id = id,
        .domain = asked->domain,
        .choices = asked->choices,
        .state = atomic_load_explicit(&ticket->shown_state, memory_order_acquire),
        .computed = atomic_load_explicit(&ticket->shown_computed, memory_order_relaxed),
        .cached = atomic_load_explicit(&ticket->shown_cached, memory_order_relaxed),
        .completion_tokens = atomic_load_explicit(&ticket->shown_completion, memory_order_relaxed),
        .age_us = clock_mono_us(engine->clock) - ticket->submitted_us,
        .service_class =
            (enum service_class)atomic_load_explicit(&ticket->shown_class, memory_order_relaxed),
        .deficit_sign = atomic_load_explicit(&ticket->shown_deficit, memory_order_relaxed),
    };
    uint32_t preempted_by = atomic_load_explicit(&ticket->shown_preempted_by, memory_order_relaxed);
    out->is_preempted = preempted_by != 0;
    if (out->is_preempted)
        out->preempted_by = (enum service_class)(preempted_by - 1);
    if (out->state != ENGINE_REQUEST_PREPARING)
        out->prompt_tokens = ticket->prompt_count;
    if (out->state == ENGINE_REQUEST_WAITING || out->state == ENGINE_REQUEST_PAUSED) {
        const struct step_figures *figures = &engine->step.figures;
        uint32_t tokens = out->prompt_tokens + out->completion_tokens;
        out->pages_needed = kv_pool_units_least(&engine->step.pool, tokens);
        out->pages_free = step_explain_coarse((uint64_t)atomic_load(&figures->pages_free) +
                                              atomic_load(&figures->pages_idle));
    }
    size_t length = asked->request_id.length;
    if (length > 0)
        memcpy(out->request_id, asked->request_id.bytes,
               length < LIMIT_REQUEST_ID_BYTES ? length : LIMIT_REQUEST_ID_BYTES);
}

size_t engine_requests(struct engine *engine, struct engine_request_info *out, size_t count)
{
    size_t shown = 0;
    for (uint32_t slot = 0; slot < engine->tickets.count && shown < count; slot++) {
        struct ticket *ticket = &engine->tickets.slots[slot];
        engine_request_id id = atomic_load(&ticket->id);
        if (id != 0)
            requests_show(engine, ticket, id, &out[shown++]);
    }
    requests_place(engine, out, shown);
    return shown;
}
