#include "engine/models/vocab.h"

#include "config/base/hash.h"
#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/base/utf8.h"

struct vocab {
    uint32_t size;
    uint32_t bos;
    uint32_t eos;
    bool adds_bos;
    bool adds_eos;
    bool adds_blank;
    enum vocab_model model;
    uint8_t *kinds; /* [size] enum vocab_kind */
    bool *ends;     /* [size] */
    /* [size + 1] offsets into `bytes`, at most LIMIT_VOCAB × LIMIT_TOKEN_BYTES = 2^30 */
    uint32_t *offsets;
    char *bytes;
};

/* The alphabet of byte-level BPE has 256 characters, all below U+0144. */
enum { DECODE_ALPHABET_END = 0x144 };

static bool decode_prints(uint32_t c)
{
    return (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

/* Returns the byte of an alphabet character, or -1. The characters from U+0100 on are, in order,
 * the 33 bytes up to 0x20, the 34 bytes from 0x7f to 0xa0, and 0xad. */
static int decode_character(uint32_t c)
{
    if (c < 0x100)
        return decode_prints(c) ? (int)c : -1;
    if (c >= DECODE_ALPHABET_END)
        return -1;
    uint32_t rank = c - 0x100;
    if (rank < 33)
        return (int)rank;
    if (rank < 33 + 34)
        return (int)(0x7f + rank - 33);
    return 0xad;
}

bool vocab_decode(struct slice text, char *out, size_t capacity, size_t *length)
{
    size_t written = 0;
    for (size_t at = 0; at < text.length;) {
        size_t run = utf8_sequence_length(text.bytes + at, text.length - at);
        if (run == 0 || written == capacity)
            return false;
        int byte = decode_character(utf8_decode(text.bytes + at, run));
        if (byte < 0)
            return false;
        out[written++] = (char)byte;
        at += run;
    }
    *length = written;
    return true;
}

static int create_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Copies a piece of SentencePiece with a blank for each U+2581. */
static enum status create_piece(struct slice text, uint32_t id, char *out, size_t *length)
{
    static const char mark[] = "\xe2\x96\x81";
    if (text.length > LIMIT_TOKEN_BYTES)
        FAIL(STATUS_CORRUPT, "token %u is longer than %d bytes", id, LIMIT_TOKEN_BYTES);
    if (!utf8_is_valid(text.bytes, text.length))
        FAIL(STATUS_CORRUPT, "token %u is not UTF-8", id);
    *length = 0;
    for (size_t at = 0; at < text.length;) {
        bool is_mark = text.length - at >= 3 && memcmp(text.bytes + at, mark, 3) == 0;
        out[(*length)++] = is_mark ? ' ' : text.bytes[at];
        at += is_mark ? 3 : 1;
    }
    return STATUS_OK;
}

/* Writes the bytes of one token to `out`, which has room for LIMIT_TOKEN_BYTES. */
static enum status create_token(enum vocab_model model, struct slice text, enum vocab_kind kind,
                                uint32_t id, char *out, size_t *length)
{
    if (text.length == 0)
        FAIL(STATUS_CORRUPT, "token %u is empty", id);
    if (model != VOCAB_MODEL_BYTES && kind != VOCAB_BYTE)
        return create_piece(text, id, out, length);
    if (kind == VOCAB_NORMAL) {
        if (!vocab_decode(text, out, LIMIT_TOKEN_BYTES, length))
            FAIL(STATUS_CORRUPT, "token %u is too long or outside the byte alphabet", id);
        return STATUS_OK;
    }
    if (kind == VOCAB_BYTE) { /* "<0x0A>" */
        bool is_form = text.length == 6 && memcmp(text.bytes, "<0x", 3) == 0 &&
                       create_hex(text.bytes[3]) >= 0 && create_hex(text.bytes[4]) >= 0 &&
                       text.bytes[5] == '>';
        if (!is_form)
            FAIL(STATUS_CORRUPT, "byte token %u is not of the form <0x0A>", id);
        out[0] = (char)(create_hex(text.bytes[3]) * 16 + create_hex(text.bytes[4]));
        *length = 1;
        return STATUS_OK;
    }
    if (text.length > LIMIT_TOKEN_BYTES)
        FAIL(STATUS_CORRUPT, "token %u is longer than %d bytes", id, LIMIT_TOKEN_BYTES);
    memcpy(out, text.bytes, text.length);
    *length = text.length;
    return STATUS_OK;
}

/* A set of token texts, which finds repeated ones. It is a hash table with open addressing, at most
 * half full. */
struct create_set {
    struct slice *slots;
    size_t mask;
};

/* Adds a text. False when the text was in the set already. */
static bool create_set_add(struct create_set *set, struct slice text)
{
    size_t at = hash_bytes(hash_process_key(), text.bytes, text.length) & set->mask;
    while (set->slots[at].length != 0) {
        if (slice_equals(set->slots[at], text))
            return false;
        at = (at + 1) & set->mask;
    }
    set->slots[at] = text;
    return true;
}

static enum status create_kinds(struct vocab *vocab, const struct gguf *gguf)
{
    memset(vocab->kinds, VOCAB_NORMAL, vocab->size);
    /* Pieces without kinds would have no byte tokens, and control tokens that anybody can write. */
    if (!gguf_has(gguf, "tokenizer.ggml.token_type") && vocab->model == VOCAB_MODEL_BYTES)
        return STATUS_OK;
    struct gguf_array types;
    TRY(gguf_get_array(gguf, "tokenizer.ggml.token_type", &types));
    if (types.count != vocab->size)
        FAIL(STATUS_CORRUPT, "tokenizer.ggml.token_type has %llu entries for %u tokens",
             (unsigned long long)types.count, vocab->size);
    for (uint32_t id = 0; id < vocab->size; id++) {
        int32_t type;
        TRY(gguf_array_next_i32(&types, &type));
        if (type < VOCAB_NORMAL || type > VOCAB_BYTE)
            FAIL(STATUS_CORRUPT, "token %u has the unknown type %d", id, type);
        vocab->kinds[id] = (uint8_t)type;
    }
    return STATUS_OK;
}

static enum status create_tokens(struct vocab *vocab, struct gguf_array tokens)
{
    enum status status = STATUS_OK;
    struct create_set set = {.mask = 1};
    while (set.mask + 1 < 2 * (size_t)vocab->size)
        set.mask = set.mask * 2 + 1;
    struct buffer bytes;
    buffer_init(&bytes, (size_t)vocab->size * LIMIT_TOKEN_BYTES);
    set.slots = mem_zalloc(set.mask + 1, sizeof(*set.slots));
    if (set.slots == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for %u tokens", vocab->size);
    for (uint32_t id = 0; id < vocab->size; id++) {
        struct slice text;
        char token[LIMIT_TOKEN_BYTES];
        size_t length;
        TRY_OUT(gguf_array_next_string(&tokens, &text));
        TRY_OUT(create_token(vocab->model, text, vocab->kinds[id], id, token, &length));
        if (!create_set_add(&set, text))
            FAIL_OUT(STATUS_CORRUPT, "token %u appears twice in the vocabulary", id);
        vocab->offsets[id] = (uint32_t)bytes.length;
        buffer_append(&bytes, token, length);
        TRY_OUT(bytes.status);
    }
    vocab->offsets[vocab->size] = (uint32_t)bytes.length;
    vocab->bytes = bytes.bytes;
    buffer_init(&bytes, 0); /* the vocabulary has taken the bytes */
out:
    buffer_deinit(&bytes);
    mem_free(set.slots);
    return status;
}

/* Reads the token id with a key; VOCAB_NONE when the file does not have the key. */
static enum status create_special(const struct vocab *vocab, const struct gguf *gguf,
                                  const char *key, uint32_t *out)
{
    *out = VOCAB_NONE;
    if (!gguf_has(gguf, key))
        return STATUS_OK;
    uint32_t id;
    TRY(gguf_get_u32(gguf, key, &id));
    if (id >= vocab->size)
        FAIL(STATUS_CORRUPT, "%s is %u, but there are %u tokens", key, id, vocab->size);
    *out = id;
    return STATUS_OK;
}

/* The control tokens that end a turn or a text in the public model families. Files often name only
 * one of a pair as eos. */
static const char *const CREATE_END_NAMES[] = {
    "<|endoftext|>", "<|im_end|>", "<|end_of_text|>", "<|eot_id|>",    "<|eom_id|>", "<|end|>",
    "<|eot|>",       "</s>",       "<eos>",           "<end_of_turn>", "<|return|>",
};

/* The list that generation_config.json of a directory has (hf_tokenizer). */
static enum status create_ends(struct vocab *vocab, const struct gguf *gguf)
{
    struct gguf_array ids;
    if (!gguf_has(gguf, "banyan.eos_token_ids"))
        return STATUS_OK;
    TRY(gguf_get_array(gguf, "banyan.eos_token_ids", &ids));
    for (uint64_t i = 0; i < ids.count; i++) {
        uint32_t id;
        TRY(gguf_array_next_u32(&ids, &id));
        if (id >= vocab->size)
            FAIL(STATUS_CORRUPT, "banyan.eos_token_ids has %u, but there are %u tokens", id,
                 vocab->size);
        vocab->ends[id] = true;
    }
    return STATUS_OK;
}

static enum status create_specials(struct vocab *vocab, const struct gguf *gguf)
{
    /* The format spells the separator's key with an e. */
    static const char *const others[] = {
        "tokenizer.ggml.unknown_token_id",   "tokenizer.ggml.padding_token_id",
        "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.separator_token_id",
        "tokenizer.ggml.mask_token_id",      "tokenizer.ggml.cls_token_id",
    };
    static const char *const ends[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    uint32_t id;
    TRY(create_special(vocab, gguf, "tokenizer.ggml.bos_token_id", &vocab->bos));
    TRY(create_special(vocab, gguf, "tokenizer.ggml.eos_token_id", &vocab->eos));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        TRY(create_special(vocab, gguf, others[i], &id));
    if (vocab->eos != VOCAB_NONE)
        vocab->ends[vocab->eos] = true;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        TRY(create_special(vocab, gguf, ends[i], &id));
        if (id != VOCAB_NONE)
            vocab->ends[id] = true;
    }
    TRY(create_ends(vocab, gguf));
    for (id = 0; id < vocab->size; id++) {
        if (vocab->kinds[id] != VOCAB_CONTROL)
            continue;
        for (size_t i = 0; i < sizeof(CREATE_END_NAMES) / sizeof(CREATE_END_NAMES[0]); i++) {
            if (slice_is(vocab_bytes(vocab, id), CREATE_END_NAMES[i]))
                vocab->ends[id] = true;
        }
    }
    return STATUS_OK;
}

/* Pre-splits of models whose library begins every text with bos. Their older files do not say so,
 * nor do those of SentencePiece models. */
static const char *const CREATE_BOS_PRESPLITS[] = {"llama-bpe", "tekken"};

/* Reads what the tokenizer puts before a text. */
static enum status create_additions(struct vocab *vocab, const struct gguf *gguf)
{
    bool by_default = vocab->model != VOCAB_MODEL_BYTES;
    struct slice presplit = {0};
    if (vocab->model == VOCAB_MODEL_BYTES && gguf_has(gguf, "tokenizer.ggml.pre"))
        TRY(gguf_get_string(gguf, "tokenizer.ggml.pre", &presplit));
    for (size_t i = 0; i < sizeof(CREATE_BOS_PRESPLITS) / sizeof(CREATE_BOS_PRESPLITS[0]); i++)
        by_default |= slice_is(presplit, CREATE_BOS_PRESPLITS[i]);
    vocab->adds_bos = by_default && vocab->bos != VOCAB_NONE;
    vocab->adds_blank = vocab->model != VOCAB_MODEL_BYTES;
    if (gguf_has(gguf, "tokenizer.ggml.add_space_prefix"))
        TRY(gguf_get_bool(gguf, "tokenizer.ggml.add_space_prefix", &vocab->adds_blank));
    if (vocab->adds_blank && vocab->model == VOCAB_MODEL_BYTES)
        FAIL(STATUS_UNSUPPORTED,
             "tokenizer.ggml.add_space_prefix is not supported for byte-level BPE");
    if (gguf_has(gguf, "tokenizer.ggml.add_eos_token"))
        TRY(gguf_get_bool(gguf, "tokenizer.ggml.add_eos_token", &vocab->adds_eos));
    if (vocab->adds_eos && vocab->eos == VOCAB_NONE)
        FAIL(STATUS_CORRUPT, "add_eos_token is set, but there is no eos_token_id");
    if (!gguf_has(gguf, "tokenizer.ggml.add_bos_token"))
        return STATUS_OK;
    TRY(gguf_get_bool(gguf, "tokenizer.ggml.add_bos_token", &vocab->adds_bos));
    if (vocab->adds_bos && vocab->bos == VOCAB_NONE)
        FAIL(STATUS_CORRUPT, "add_bos_token is set, but there is no bos_token_id");
    return STATUS_OK;
}

static enum status create_model(enum vocab_model *out, const struct gguf *gguf)
{
    struct slice model;
    TRY(gguf_get_string(gguf, "tokenizer.ggml.model", &model));
    static const char *const names[] = {
        [VOCAB_MODEL_BYTES] = "gpt2", [VOCAB_MODEL_PIECES] = "llama", [VOCAB_MODEL_WORDS] = "bert"};
    for (int i = VOCAB_MODEL_BYTES; i <= VOCAB_MODEL_WORDS; i++)
        if (slice_is(model, names[i])) {
            *out = (enum vocab_model)i;
            return STATUS_OK;
        }
    FAIL(STATUS_UNSUPPORTED,
         "tokenizer model '%.*s' is not supported (supported: gpt2, byte-level BPE, llama, "
         "SentencePiece BPE, and bert, WordPiece)",
         (int)(model.length < 64 ? model.length : 64), model.bytes);
}

enum status vocab_create(struct vocab **out, const struct gguf *gguf)
{
    enum status status = STATUS_OK;
    struct vocab *vocab = NULL;
    struct gguf_array tokens;
    enum vocab_model model = VOCAB_MODEL_BYTES;
    *out = NULL;
    TRY(create_model(&model, gguf));
    TRY(gguf_get_array(gguf, "tokenizer.ggml.tokens", &tokens));
    if (tokens.count == 0 || tokens.count > LIMIT_VOCAB)
        FAIL(STATUS_CORRUPT, "%llu tokens; 1 to %d are possible", (unsigned long long)tokens.count,
             LIMIT_VOCAB);
    vocab = mem_zalloc(1, sizeof(*vocab));
    if (vocab == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the vocabulary");
    vocab->model = model;
    vocab->size = (uint32_t)tokens.count;
    vocab->kinds = mem_zalloc(vocab->size, sizeof(*vocab->kinds));
    vocab->ends = mem_zalloc(vocab->size, sizeof(*vocab->ends));
    vocab->offsets = mem_zalloc((size_t)vocab->size + 1, sizeof(*vocab->offsets));
    if (vocab->kinds == NULL || vocab->ends == NULL || vocab->offsets == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for %u tokens", vocab->size);
    TRY_OUT(create_kinds(vocab, gguf));
    TRY_OUT(create_tokens(vocab, tokens));
    TRY_OUT(create_specials(vocab, gguf));
    TRY_OUT(create_additions(vocab, gguf));
    *out = vocab;
    vocab = NULL;
out:
    vocab_destroy(vocab);
    return status;
}

void vocab_destroy(struct vocab *vocab)
{
    if (vocab == NULL)
        return;
    mem_free(vocab->kinds);
    mem_free(vocab->ends);
    mem_free(vocab->offsets);
    mem_free(vocab->bytes);
    mem_free(vocab);
}

enum vocab_model vocab_model(const struct vocab *vocab)
{
    return vocab->model;
}

uint32_t vocab_size(const struct vocab *vocab)
{
    return vocab->size;
}

struct slice vocab_bytes(const struct vocab *vocab, uint32_t id)
{
    ASSERT(id < vocab->size);
    uint32_t offset = vocab->offsets[id];
    return (struct slice){vocab->bytes + offset, vocab->offsets[id + 1] - offset};
}

enum vocab_kind vocab_kind(const struct vocab *vocab, uint32_t id)
{
    ASSERT(id < vocab->size);
    return (enum vocab_kind)vocab->kinds[id];
}

bool vocab_is_control(const struct vocab *vocab, uint32_t id)
{
    return vocab_kind(vocab, id) == VOCAB_CONTROL;
}

bool vocab_is_end(const struct vocab *vocab, uint32_t id)
{
    ASSERT(id < vocab->size);
    return vocab->ends[id];
}

uint32_t vocab_bos(const struct vocab *vocab)
{
    return vocab->bos;
}

uint32_t vocab_eos(const struct vocab *vocab)
{
    return vocab->eos;
}

bool vocab_adds_bos(const struct vocab *vocab)
{
    return vocab->adds_bos;
}

bool vocab_adds_eos(const struct vocab *vocab)
{
    return vocab->adds_eos;
}

bool vocab_adds_blank(const struct vocab *vocab)
{
    return vocab->adds_blank;
}

struct slice vocab_text(const struct vocab *vocab, uint32_t previous, uint32_t id)
{
    struct slice bytes = vocab_bytes(vocab, id);
    bool is_piece = vocab->kinds[id] == VOCAB_NORMAL || vocab->kinds[id] == VOCAB_UNUSED;
    if (!vocab->adds_blank || bytes.bytes[0] != ' ' || !is_piece)
        return bytes;
    bool begins = previous == VOCAB_NONE || vocab->kinds[previous] == VOCAB_CONTROL ||
                  vocab->kinds[previous] == VOCAB_USER_DEFINED;
    size_t skipped = begins ? 1 : 0;
    return (struct slice){bytes.bytes + skipped, bytes.length - skipped};
}
