#include "gateway/cli/cli_text.h"

#include <stdint.h>

#include "config/base/utf8.h"

struct range {
    uint32_t first;
    uint32_t last;
};

/* Characters that become U+FFFD; the header says which they are. */
static const struct range hidden[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
    {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
    {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
};
/* Combining marks take no column, East Asian characters and emoji take two. The ranges are blocks
 * that approximate Unicode's tables EastAsianWidth and Mn: an error only misaligns a column. */
static const struct range narrow[] = {
    {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
    {0x900, 0x902},   {0xe31, 0xe31},   {0xe34, 0xe3a},   {0xe47, 0xe4e},   {0x1ab0, 0x1aff},
    {0x1dc0, 0x1dff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
};
static const struct range wide[] = {
    {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
    {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};

#define IN(ranges, point) is_in((ranges), sizeof(ranges) / sizeof(ranges)[0], (point))

static bool is_in(const struct range *ranges, size_t count, uint32_t point)
{
    for (size_t i = 0; i < count; i++) {
        if (point >= ranges[i].first && point <= ranges[i].last)
            return true;
    }
    return false;
}

static size_t columns_of(uint32_t point)
{
    return IN(narrow, point) ? 0 : IN(wide, point) ? 2 : 1;
}

/* Returns the length in bytes of the next character; `*point` is U+FFFD when it is not shown. */
static size_t next_point(struct slice text, size_t at, uint32_t *point)
{
    size_t length = utf8_sequence_length(text.bytes + at, text.length - at);
    *point = length == 0 ? 0xfffd : utf8_decode(text.bytes + at, length);
    if (IN(hidden, *point))
        *point = 0xfffd;
    return length == 0 ? 1 : length;
}

size_t cli_text_append(struct buffer *out, struct slice text)
{
    size_t columns = 0;
    for (size_t at = 0; at < text.length;) {
        uint32_t point = 0;
        char bytes[4];
        at += next_point(text, at, &point);
        buffer_append(out, bytes, utf8_encode(point, bytes));
        columns += columns_of(point);
    }
    return columns;
}

size_t cli_text_columns(struct slice text)
{
    size_t columns = 0;
    for (size_t at = 0; at < text.length;) {
        uint32_t point = 0;
        at += next_point(text, at, &point);
        columns += columns_of(point);
    }
    return columns;
}

static void fit_fill(struct buffer *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buffer_append_char(out, ' ');
}

void cli_text_append_fit(struct buffer *out, struct slice text, size_t columns, bool is_right)
{
    size_t taken = cli_text_columns(text);
    if (taken <= columns) {
        fit_fill(out, is_right ? columns - taken : 0);
        buffer_append_slice(out, text);
        fit_fill(out, is_right ? 0 : columns - taken);
        return;
    }
    size_t at = 0;
    taken = 0;
    while (at < text.length) {
        uint32_t point = 0;
        size_t length = next_point(text, at, &point);
        if (taken + columns_of(point) > columns - 1)
            break;
        taken += columns_of(point);
        at += length;
    }
    buffer_append(out, text.bytes, at);
    buffer_append_text(out, "…");
    fit_fill(out, columns - 1 - taken);
}
