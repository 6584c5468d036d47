#include "engine/grammar/token_class.h"

#include <pthread.h>
#include <string.h>

#include "config/base/mem.h"

struct entry {
    struct token_class class; /* first, so that a class leads to its entry */
    struct regex_range *ranges;
    uint32_t count;
    uint32_t held;
    uint64_t used; /* when it was last found */
    uint32_t *masks;
    size_t bytes;
};

struct token_classes {
    const struct token_trie *trie;
    pthread_mutex_t lock;
    struct entry *entries[LIMIT_TOKEN_CLASSES];
    uint64_t time;
};

/* --- which tokens are of a class --- */

/* The place behind a node of the tree: characters so far, and the character that is not whole. */
struct place {
    uint32_t chars;
    uint32_t code;  /* of the character's bytes so far */
    uint32_t least; /* that a character of so many bytes can be */
    uint8_t left;   /* bytes that it still needs */
};

static bool is_in(const struct regex_range *ranges, uint32_t count, uint32_t code)
{
    uint32_t low = 0;
    while (count > 1) {
        uint32_t half = count / 2;
        low += ranges[low + half].first <= code ? half : 0;
        count -= half;
    }
    return count != 0 && code >= ranges[low].first && code <= ranges[low].last;
}

/* Takes a byte; false when the text is not of the class any more. */
static bool step(const struct entry *entry, const struct place *before, uint8_t byte,
                 struct place *after)
{
    *after = *before;
    if (before->left != 0) {
        if ((byte & 0xc0) != 0x80)
            return false;
        after->code = before->code << 6 | (byte & 0x3f);
        after->left--;
    } else if (byte < 0x80) {
        *after = (struct place){before->chars, byte, 0, 0};
    } else if (byte >= 0xc0 && byte < 0xe0) {
        *after = (struct place){before->chars, byte & 0x1f, 0x80, 1};
    } else if (byte >= 0xe0 && byte < 0xf0) {
        *after = (struct place){before->chars, byte & 0x0f, 0x800, 2};
    } else if (byte >= 0xf0 && byte < 0xf8) {
        *after = (struct place){before->chars, byte & 0x07, 0x10000, 3};
    } else {
        return false;
    }
    if (after->left != 0)
        return true;
    after->chars++;
    return after->code >= after->least && is_in(entry->ranges, entry->count, after->code);
}

/* Writes the characters of each token of the class, 0 for other tokens. */
static void count_chars(const struct token_trie *trie, struct entry *entry, uint8_t *chars)
{
    struct place places[TOKEN_TRIE_DEPTH + 1];
    places[0] = (struct place){.chars = 0};
    for (uint32_t i = 1; i < trie->all.count;) {
        const struct token_trie_node *node = &trie->all.nodes[i];
        struct place *place = &places[node->depth];
        if (!step(entry, place - 1, (uint8_t)node->byte, place)) {
            i += (uint32_t)node->size;
            continue;
        }
        bool is_whole = place->left == 0 && place->chars <= LIMIT_TOKEN_CLASS_CHARS;
        for (uint32_t id = node->token; is_whole && id != TOKEN_TRIE_NONE;
             id = token_trie_next(trie, id)) {
            chars[id] = (uint8_t)place->chars;
            if (place->chars > entry->class.longest)
                entry->class.longest = place->chars;
        }
        i++;
    }
}

/* --- masks --- */

/* One mask for each length that a token has, and one of no token. */
static bool make_masks(struct entry *entry, const uint8_t *chars, uint32_t vocab, uint32_t words)
{
    bool has_length[LIMIT_TOKEN_CLASS_CHARS + 1] = {true};
    uint32_t lengths = 1;
    for (uint32_t id = 0; id < vocab; id++) {
        lengths += !has_length[chars[id]];
        has_length[chars[id]] = true;
    }
    entry->bytes += (size_t)lengths * words * sizeof *entry->masks;
    entry->masks = mem_zalloc((size_t)lengths * words + 1, sizeof *entry->masks);
    if (entry->masks == NULL)
        return false;
    uint32_t *mask = entry->masks;
    for (uint32_t n = 0; n <= entry->class.longest; n++) {
        if (n != 0 && has_length[n]) {
            memcpy(mask + words, mask, words * sizeof *mask);
            mask += words;
        }
        entry->class.masks[n] = mask;
        for (uint32_t id = 0; n != 0 && has_length[n] && id < vocab; id++)
            if (chars[id] == n)
                mask[id / 32] |= (uint32_t)1 << id % 32;
    }
    return true;
}

static void free_entry(struct entry *entry)
{
    if (entry == NULL)
        return;
    token_trie_part_free(&entry->class.rest);
    mem_free(entry->ranges);
    mem_free(entry->masks);
    mem_free(entry);
}

static struct entry *make_entry(const struct token_trie *trie, const struct regex_range *ranges,
                                uint32_t count)
{
    struct entry *entry = mem_zalloc(1, sizeof *entry);
    uint8_t *chars = mem_zalloc((size_t)trie->vocab + 1, sizeof *chars);
    bool is_made = entry != NULL && chars != NULL;
    if (is_made) {
        entry->count = count;
        entry->bytes = sizeof *entry + count * sizeof *ranges;
        entry->ranges = mem_zalloc((size_t)count + 1, sizeof *ranges);
        is_made = entry->ranges != NULL;
    }
    if (is_made) {
        if (count != 0)
            memcpy(entry->ranges, ranges, count * sizeof *ranges);
        count_chars(trie, entry, chars);
        is_made = make_masks(entry, chars, trie->vocab, token_trie_mask_words(trie)) &&
                  token_trie_part_new(trie, entry->class.masks[entry->class.longest],
                                      &entry->class.rest) == STATUS_OK;
    }
    mem_free(chars);
    if (!is_made) {
        free_entry(entry);
        return NULL;
    }
    entry->bytes += entry->class.rest.count * sizeof *entry->class.rest.nodes;
    return entry;
}

/* --- the classes of a model --- */

enum status token_classes_new(const struct token_trie *trie, struct token_classes **out)
{
    *out = NULL;
    struct token_classes *classes = mem_zalloc(1, sizeof *classes);
    if (classes == NULL || pthread_mutex_init(&classes->lock, NULL) != 0) {
        mem_free(classes);
        FAIL(STATUS_NO_MEMORY, "no memory for classes of characters");
    }
    classes->trie = trie;
    *out = classes;
    return STATUS_OK;
}

void token_classes_free(struct token_classes *classes)
{
    if (classes == NULL)
        return;
    for (uint32_t i = 0; i < LIMIT_TOKEN_CLASSES; i++) {
        ASSERT(classes->entries[i] == NULL || classes->entries[i]->held == 0);
        free_entry(classes->entries[i]);
    }
    pthread_mutex_destroy(&classes->lock);
    mem_free(classes);
}

const struct token_trie *token_classes_trie(const struct token_classes *classes)
{
    return classes->trie;
}

size_t token_classes_bytes(struct token_classes *classes)
{
    size_t bytes = sizeof *classes;
    pthread_mutex_lock(&classes->lock);
    for (uint32_t i = 0; i < LIMIT_TOKEN_CLASSES; i++)
        bytes += classes->entries[i] != NULL ? classes->entries[i]->bytes : 0;
    pthread_mutex_unlock(&classes->lock);
    return bytes;
}

/* Holds the class if it is there. The caller has the lock. */
static struct entry *find(struct token_classes *classes, const struct regex_range *ranges,
                          uint32_t count)
{
    for (uint32_t i = 0; i < LIMIT_TOKEN_CLASSES; i++) {
        struct entry *entry = classes->entries[i];
        if (entry == NULL || entry->count != count ||
            (count != 0 && memcmp(entry->ranges, ranges, count * sizeof *ranges) != 0))
            continue;
        entry->held++;
        entry->used = ++classes->time;
        return entry;
    }
    return NULL;
}

const struct token_class *token_classes_find(struct token_classes *classes,
                                             const struct regex_range *ranges, uint32_t count)
{
    pthread_mutex_lock(&classes->lock);
    struct entry *entry = find(classes, ranges, count);
    pthread_mutex_unlock(&classes->lock);
    return entry != NULL ? &entry->class : NULL;
}

/* Puts an entry in a free place, or in that of the least recently used one that nobody holds, which
 * is returned. If there is no place, the entry itself is returned. The caller has the lock. */
static struct entry *put(struct token_classes *classes, struct entry *entry)
{
    uint32_t best = LIMIT_TOKEN_CLASSES;
    for (uint32_t i = 0; i < LIMIT_TOKEN_CLASSES; i++) {
        const struct entry *other = classes->entries[i];
        if (other == NULL) {
            best = i;
            break;
        }
        if (other->held == 0 &&
            (best == LIMIT_TOKEN_CLASSES || other->used < classes->entries[best]->used))
            best = i;
    }
    if (best == LIMIT_TOKEN_CLASSES)
        return entry;
    struct entry *old = classes->entries[best];
    classes->entries[best] = entry;
    entry->held = 1;
    entry->used = ++classes->time;
    return old;
}

const struct token_class *token_classes_make(struct token_classes *classes,
                                             const struct regex_range *ranges, uint32_t count)
{
    const struct token_class *known = token_classes_find(classes, ranges, count);
    if (known != NULL)
        return known;
    struct entry *entry = make_entry(classes->trie, ranges, count);
    if (entry == NULL)
        return NULL;
    pthread_mutex_lock(&classes->lock);
    struct entry *other = find(classes, ranges, count); /* made by another thread meanwhile */
    struct entry *out = other != NULL ? entry : put(classes, entry);
    struct entry *held = other != NULL ? other : out == entry ? NULL : entry;
    pthread_mutex_unlock(&classes->lock);
    free_entry(out);
    return held != NULL ? &held->class : NULL;
}

void token_classes_release(struct token_classes *classes, const struct token_class *class)
{
    struct entry *entry = (struct entry *)(uintptr_t) class;
    pthread_mutex_lock(&classes->lock);
    ASSERT(entry->held != 0);
    entry->held--;
    pthread_mutex_unlock(&classes->lock);
}
