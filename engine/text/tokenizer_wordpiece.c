#include "engine/text/tokenizer_wordpiece.h"

#include <utf8proc.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/base/turns.h"
#include "config/base/utf8.h"
#include "engine/text/tokenizer_index.h"

enum {
    WORD_CHARACTERS = 100, /* of a longer word nothing is known */
    CHARACTER_BYTES = 4,
    DECOMPOSED_MAX = 16, /* a character decomposes into at most four */
    SPEND_BYTES = 4096,
};

struct tokenizer_wordpiece {
    const struct vocab *vocab;
    struct tokenizer_index index;
    uint32_t unknown;
    size_t longest; /* bytes of a piece */
    bool cleans;
    bool parts_cjk;
    bool strips;
    bool lowers;
};

/* The word that is being collected, with a blank before it. */
struct word {
    const struct tokenizer_wordpiece *words;
    char bytes[1 + WORD_CHARACTERS * CHARACTER_BYTES];
    size_t length;
    uint32_t characters;
    uint32_t *ids;
    size_t capacity;
    size_t count;
    enum status status;
};

/* --- making one --- */

static enum status create_option(const struct gguf *gguf, const char *key, bool *out)
{
    *out = true;
    return gguf_has(gguf, key) ? gguf_get_bool(gguf, key, out) : STATUS_OK;
}

static enum status create_all(struct tokenizer_wordpiece *words, const struct gguf *gguf)
{
    TRY(create_option(gguf, "banyan.bert.clean", &words->cleans));
    TRY(create_option(gguf, "banyan.bert.cjk", &words->parts_cjk));
    TRY(create_option(gguf, "banyan.bert.strip", &words->strips));
    TRY(create_option(gguf, "banyan.bert.lower", &words->lowers));
    TRY(gguf_get_u32(gguf, "tokenizer.ggml.unknown_token_id", &words->unknown));
    if (words->unknown >= vocab_size(words->vocab))
        FAIL(STATUS_CORRUPT, "tokenizer.ggml.unknown_token_id is %u, but there are %u tokens",
             words->unknown, vocab_size(words->vocab));
    for (uint32_t id = 0; id < vocab_size(words->vocab); id++) {
        const size_t length = vocab_bytes(words->vocab, id).length;
        if (vocab_kind(words->vocab, id) == VOCAB_NORMAL && length > words->longest)
            words->longest = length;
    }
    return tokenizer_index_init(&words->index, words->vocab, false);
}

enum status tokenizer_wordpiece_create(struct tokenizer_wordpiece **out, const struct vocab *vocab,
                                       const struct gguf *gguf)
{
    struct tokenizer_wordpiece *words = mem_zalloc(1, sizeof *words);
    *out = NULL;
    if (words == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    words->vocab = vocab;
    const enum status status = create_all(words, gguf);
    if (status != STATUS_OK)
        tokenizer_wordpiece_destroy(words);
    else
        *out = words;
    return status;
}

void tokenizer_wordpiece_destroy(struct tokenizer_wordpiece *words)
{
    if (words == NULL)
        return;
    tokenizer_index_deinit(&words->index);
    mem_free(words);
}

/* --- words to pieces --- */

static void word_id(struct word *word, uint32_t id)
{
    if (word->count < word->capacity)
        word->ids[word->count++] = id;
    else if (word->status == STATUS_OK)
        word->status = status_fail(STATUS_LIMIT, __FILE__, __LINE__, NULL, "more than %zu tokens",
                                   word->capacity);
}

/* Returns the length of the longest piece at `at`, or 0, and its id. */
static size_t word_longest(const struct word *word, size_t at, uint32_t *id)
{
    const struct tokenizer_wordpiece *words = word->words;
    size_t end = word->length;
    if (end - at > words->longest)
        end = at + words->longest;
    for (; end > at; end--) {
        const bool is_inside =
            end < word->length && ((unsigned char)word->bytes[end] & 0xc0) == 0x80;
        if (is_inside || (at == 0 && end == 1)) /* a character is whole; the blank is no piece */
            continue;
        *id = tokenizer_index_find(&words->index, (struct slice){word->bytes + at, end - at});
        if (*id != VOCAB_NONE)
            return end - at;
    }
    return 0;
}

/* Ends the word: its pieces, or the unknown token in place of all of them. */
static void word_end(struct word *word)
{
    const size_t first = word->count;
    const bool is_short = word->characters <= WORD_CHARACTERS;
    bool is_known = is_short;
    if (word->characters == 0)
        return;
    for (size_t at = 0; is_known && at < word->length && word->status == STATUS_OK;) {
        uint32_t id;
        const size_t length = word_longest(word, at, &id);
        is_known = length > 0;
        at += length;
        if (is_known)
            word_id(word, id);
    }
    if (!is_known && word->status == STATUS_OK) {
        word->count = first;
        word_id(word, word->words->unknown);
    }
    word->length = 1;
    word->characters = 0;
}

static void word_add(struct word *word, uint32_t c)
{
    utf8proc_uint8_t bytes[CHARACTER_BYTES];
    if (word->characters < WORD_CHARACTERS) {
        const utf8proc_ssize_t length = utf8proc_encode_char((utf8proc_int32_t)c, bytes);
        memcpy(word->bytes + word->length, bytes, (size_t)length);
        word->length += (size_t)length;
    }
    if (word->characters <= WORD_CHARACTERS)
        word->characters++;
}

/* --- classes of characters --- */

static bool is_white(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Blocks of ideographs, as BERT's own program has them. */
static bool is_cjk(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* Categories, of which these classes consist, as the library has them. */
enum class { CLASS_LETTER, CLASS_SIGN, CLASS_MARK, CLASS_CONTROL };

static const struct {
    uint32_t first;
    uint32_t last;
    enum class class;
} OTHERS[] = {
#define WORDPIECE_CLASS(first, last, of) {first, last, CLASS_##of},
#include "engine/text/tokenizer_wordpiece.def"
};

static enum class class_of(uint32_t c) {
    size_t low = 0; size_t high = sizeof OTHERS / sizeof OTHERS[0];
    while (low < high){const size_t middle = low + (high - low) / 2;
                       if (c > OTHERS[middle].last) low = middle + 1; else high = middle;}
if (low < sizeof OTHERS / sizeof OTHERS[0] && c >= OTHERS[low].first) return OTHERS[low].class;
const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
if (category == UTF8PROC_CATEGORY_MN)
    return CLASS_MARK;
if (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
    category == UTF8PROC_CATEGORY_CO)
    return CLASS_CONTROL;
if (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO)
    return CLASS_SIGN;
return CLASS_LETTER;
}

static bool is_removed(uint32_t c)
{
    if (c == 0xfffd)
        return true;
    return c != '\t' && c != '\n' && c != '\r' && class_of(c) == CLASS_CONTROL;
}

static bool is_sign(uint32_t c)
{
    if (c < 0x80)
        return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) || (c >= 0x5b && c <= 0x60) ||
               (c >= 0x7b && c <= 0x7e);
    return class_of(c) == CLASS_SIGN;
}

static bool is_mark(uint32_t c)
{
    return c >= 0x300 && class_of(c) == CLASS_MARK;
}

/* --- one character of the text --- */

static void take_normal(struct word *word, uint32_t c)
{
    if (is_white(c)) {
        word_end(word);
    } else if (is_sign(c)) {
        word_end(word);
        word_add(word, c);
        word_end(word);
    } else {
        word_add(word, c);
    }
}

/* Lower case is of each character alone: a final sigma is the one inside a word. */
static void take_lower(struct word *word, uint32_t c)
{
    static const uint32_t dotted_capital_i = 0x130;
    if (!word->words->lowers) {
        take_normal(word, c);
    } else if (c == dotted_capital_i) { /* the only one that becomes two */
        take_normal(word, 'i');
        take_normal(word, 0x307);
    } else {
        take_normal(word, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
    }
}

static void take_decomposed(struct word *word, uint32_t c)
{
    utf8proc_int32_t parts[DECOMPOSED_MAX];
    if (!word->words->strips || c < 0x80) {
        take_lower(word, c);
        return;
    }
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        (utf8proc_int32_t)c, parts, DECOMPOSED_MAX, UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, NULL);
    for (utf8proc_ssize_t i = 0; i < count && i < DECOMPOSED_MAX; i++)
        if (!is_mark((uint32_t)parts[i]))
            take_lower(word, (uint32_t)parts[i]);
}

static void take(struct word *word, uint32_t c)
{
    const struct tokenizer_wordpiece *words = word->words;
    const bool is_apart = words->parts_cjk && is_cjk(c);
    if (words->cleans && (c == 0 || is_removed(c)))
        return;
    if (is_apart)
        word_end(word);
    take_decomposed(word, c);
    if (is_apart)
        word_end(word);
}

enum status tokenizer_wordpiece_encode(const struct tokenizer_wordpiece *words, struct slice text,
                                       uint32_t *ids, size_t capacity, size_t *count)
{
    struct word word = {
        .words = words, .length = 1, .ids = ids, .capacity = capacity, .count = *count};
    size_t spent = 0;
    word.bytes[0] = ' ';
    for (size_t at = 0; at < text.length && word.status == STATUS_OK;) {
        const size_t run = utf8_sequence_length(text.bytes + at, text.length - at);
        if (run > 0)
            take(&word, utf8_decode(text.bytes + at, run));
        at += run > 0 ? run : 1;
        if (at - spent >= SPEND_BYTES) {
            turns_spend(at - spent);
            spent = at;
        }
    }
    word_end(&word);
    *count = word.count;
    return word.status;
}
