#include "engine/text/tokenizer_nfc.h"

#include <utf8proc.h>

#include "config/base/mem.h"
#include "config/base/turns.h"
#include "config/base/utf8.h"

enum {
    NFC_POINTS_MAX = 16,  /* a character decomposes into at most four */
    NFC_CHUNK = 4096,     /* characters after which the next ASCII character begins a new part */
    NFC_SORT_SHORT = 16,  /* marks that are sorted by insertion */
    NFC_FIRST_LEAD = 0xcc /* the first byte of U+0300, the first mark: text below it is stable */
};

static const utf8proc_option_t NFC_OPTIONS = UTF8PROC_COMPOSE | UTF8PROC_STABLE;

void tokenizer_nfc_init(struct tokenizer_nfc *nfc)
{
    *nfc = (struct tokenizer_nfc){0};
    buffer_init(&nfc->bytes, SIZE_MAX / 2);
}

void tokenizer_nfc_deinit(struct tokenizer_nfc *nfc)
{
    mem_free(nfc->points);
    buffer_deinit(&nfc->bytes);
}

static enum status apply_reserve(struct tokenizer_nfc *nfc, size_t count)
{
    if (count <= nfc->capacity)
        return STATUS_OK;
    size_t capacity = nfc->capacity < 256 ? 256 : nfc->capacity;
    while (capacity < count)
        capacity += capacity / 2;
    int32_t *points = mem_realloc(nfc->points, 2 * capacity * sizeof(*points));
    if (points == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to normalise a text");
    nfc->points = points;
    nfc->capacity = capacity;
    return STATUS_OK;
}

static uint8_t apply_class(int32_t point)
{
    return (uint8_t)utf8proc_get_property(point)->combining_class;
}

/* Sorts a run of marks by their combining class; equal ones keep their order. The library's own
 * sort is quadratic, so a text of marks would take minutes. */
static void apply_sort(int32_t *marks, int32_t *spare, size_t count)
{
    if (count <= NFC_SORT_SHORT) {
        for (size_t i = 1; i < count; i++) {
            int32_t mark = marks[i];
            size_t at = i;
            for (; at > 0 && apply_class(marks[at - 1]) > apply_class(mark); at--)
                marks[at] = marks[at - 1];
            marks[at] = mark;
        }
        return;
    }
    size_t begins[257] = {0};
    for (size_t i = 0; i < count; i++)
        begins[apply_class(marks[i]) + 1]++;
    for (int class = 1; class < 257; class ++)
        begins[class] += begins[class - 1];
    for (size_t i = 0; i < count; i++)
        spare[begins[apply_class(marks[i])]++] = marks[i];
    memcpy(marks, spare, count * sizeof(*marks));
}

static void apply_order(struct tokenizer_nfc *nfc, size_t count)
{
    for (size_t at = 0; at < count;) {
        size_t end = at;
        while (end < count && nfc->points[end] >= 0x300 && apply_class(nfc->points[end]) > 0)
            end++;
        if (end - at > 1)
            apply_sort(nfc->points + at, nfc->points + nfc->capacity, end - at);
        at = end + 1;
    }
}

/* Decomposes the text from `*at` on, up to an ASCII character behind NFC_CHUNK characters, or to
 * the end. Nothing composes with an ASCII character that follows it. */
static enum status apply_decompose(struct tokenizer_nfc *nfc, struct slice text, size_t *at,
                                   size_t *count)
{
    *count = 0;
    for (size_t characters = 0; *at < text.length; characters++) {
        unsigned char byte = (unsigned char)text.bytes[*at];
        if (characters >= NFC_CHUNK && byte < 0x80)
            break;
        TRY(apply_reserve(nfc, *count + NFC_POINTS_MAX));
        if (byte < 0x80) {
            nfc->points[(*count)++] = byte;
            ++*at;
            continue;
        }
        size_t length = utf8_sequence_length(text.bytes + *at, text.length - *at);
        ASSERT(length > 0);
        utf8proc_ssize_t made =
            utf8proc_decompose_char((int32_t)utf8_decode(text.bytes + *at, length),
                                    nfc->points + *count, NFC_POINTS_MAX, NFC_OPTIONS, NULL);
        ASSERT(made >= 0);
        ASSERT(made <= NFC_POINTS_MAX);
        *count += (size_t)made;
        *at += length;
    }
    return STATUS_OK;
}

static enum status apply_part(struct tokenizer_nfc *nfc, struct slice text, size_t *at)
{
    size_t count;
    size_t begin = *at;
    TRY(apply_decompose(nfc, text, at, &count));
    apply_order(nfc, count);
    utf8proc_ssize_t left =
        utf8proc_normalize_utf32(nfc->points, (utf8proc_ssize_t)count, NFC_OPTIONS);
    ASSERT(left >= 0);
    char bytes[1024];
    size_t length = 0;
    for (utf8proc_ssize_t i = 0; i < left; i++) {
        if (length > sizeof(bytes) - 4) {
            buffer_append(&nfc->bytes, bytes, length);
            length = 0;
        }
        if (nfc->points[i] < 0x80)
            bytes[length++] = (char)nfc->points[i];
        else
            length += utf8_encode((uint32_t)nfc->points[i], bytes + length);
    }
    buffer_append(&nfc->bytes, bytes, length);
    turns_spend((*at - begin) / 4);
    return nfc->bytes.status;
}

enum status tokenizer_nfc_apply(struct tokenizer_nfc *nfc, struct slice text, struct slice *out)
{
    bool is_stable = true;
    for (size_t i = 0; i < text.length; i++)
        is_stable &= (unsigned char)text.bytes[i] < NFC_FIRST_LEAD;
    *out = text;
    if (is_stable)
        return STATUS_OK;
    buffer_clear(&nfc->bytes);
    for (size_t at = 0; at < text.length;)
        TRY(apply_part(nfc, text, &at));
    *out = buffer_slice(&nfc->bytes);
    return STATUS_OK;
}
