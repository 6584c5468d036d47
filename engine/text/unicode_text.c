#include "engine/text/unicode_text.h"

struct text_run {
    uint32_t first;
    uint32_t last;
};

struct text_change {
    enum unicode_text_case wanted;
    uint32_t first;
    uint32_t last;
    uint32_t step;
    int32_t delta;
};

struct text_several {
    enum unicode_text_case wanted;
    uint32_t from;
    uint32_t to[3]; /* 0 ends fewer */
};

#define UPPER(...)
#define LOWER(...)
#define TITLE(...)
#define UPPERS(...)
#define LOWERS(...)
#define TITLES(...)
#define UNPRINTABLE(first, last) {first, last},
static const struct text_run unprintable[] = {
#include "engine/text/unicode_text.def"
};
#undef UNPRINTABLE
#undef UPPER
#undef LOWER
#undef TITLE

#define UNPRINTABLE(...)
#define UPPER(...) {UNICODE_TEXT_UPPER, __VA_ARGS__},
#define LOWER(...) {UNICODE_TEXT_LOWER, __VA_ARGS__},
#define TITLE(...) {UNICODE_TEXT_TITLE, __VA_ARGS__},
static const struct text_change changes[] = {
#include "engine/text/unicode_text.def"
};
#undef UPPER
#undef LOWER
#undef TITLE
#undef UPPERS
#undef LOWERS
#undef TITLES

#define UPPER(...)
#define LOWER(...)
#define TITLE(...)
#define UPPERS(from, ...) {UNICODE_TEXT_UPPER, from, {__VA_ARGS__}},
#define LOWERS(from, ...) {UNICODE_TEXT_LOWER, from, {__VA_ARGS__}},
#define TITLES(from, ...) {UNICODE_TEXT_TITLE, from, {__VA_ARGS__}},
static const struct text_several several[] = {
#include "engine/text/unicode_text.def"
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

bool unicode_text_is_printable(uint32_t c)
{
    if (c < 0x80)
        return c >= 0x20 && c < 0x7f;
    size_t low = 0;
    size_t high = COUNT(unprintable);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c > unprintable[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low == COUNT(unprintable) || c < unprintable[low].first;
}

/* As unicode_text_change; 0 when the tables have no row for it. */
static size_t change_find(uint32_t c, enum unicode_text_case wanted, uint32_t out[3])
{
    for (size_t i = 0; i < COUNT(several); i++) {
        if (several[i].wanted != wanted || several[i].from != c)
            continue;
        size_t count = 0;
        while (count < 3 && several[i].to[count] != 0) {
            out[count] = several[i].to[count];
            count++;
        }
        return count;
    }
    for (size_t i = 0; i < COUNT(changes); i++) {
        const struct text_change *change = &changes[i];
        if (change->wanted != wanted || c < change->first || c > change->last ||
            (c - change->first) % change->step != 0)
            continue;
        out[0] = (uint32_t)((int32_t)c + change->delta);
        return 1;
    }
    return 0;
}

size_t unicode_text_change(uint32_t c, enum unicode_text_case wanted, uint32_t out[3])
{
    out[0] = c;
    if (c < 0x80) {
        bool is_lower = c >= 'a' && c <= 'z';
        bool is_upper = c >= 'A' && c <= 'Z';
        if (is_lower && wanted != UNICODE_TEXT_LOWER)
            out[0] = c - 32;
        else if (is_upper && wanted == UNICODE_TEXT_LOWER)
            out[0] = c + 32;
        return 1;
    }
    size_t count = change_find(c, wanted, out);
    if (count == 0 && wanted == UNICODE_TEXT_TITLE)
        count = change_find(c, UNICODE_TEXT_UPPER, out);
    if (count == 0)
        out[0] = c;
    return count == 0 ? 1 : count;
}
