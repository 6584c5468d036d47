#include "engine/text/template_string.h"

#include "config/base/mem.h"
#include "config/base/utf8.h"

enum status template_string_make(struct template_run *run, struct slice text, bool is_own,
                                 struct template_value *out)
{
    *out = (struct template_value){.kind = TEMPLATE_STRING, .first = run->piece_count};
    if (text.length == 0)
        return STATUS_OK;
    out->count = 1;
    return template_run_add_piece(run, (struct template_piece){text, is_own});
}

size_t template_string_length(const struct template_run *run, struct template_value string)
{
    size_t length = 0;
    for (uint32_t i = 0; i < string.count; i++)
        length += run->pieces[string.first + i].text.length;
    return length;
}

/* Counts bytes that do not continue a character. */
enum status template_string_points(struct template_run *run, struct template_value string,
                                   int64_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < string.count; i++) {
        struct slice text = run->pieces[string.first + i].text;
        TRY(template_run_charge(run, text.length));
        for (size_t k = 0; k < text.length; k++)
            *out += ((unsigned char)text.bytes[k] & 0xc0) != 0x80;
    }
    return STATUS_OK;
}

enum status template_string_flat(struct template_run *run, struct template_value string,
                                 struct slice *out)
{
    *out = (struct slice){"", 0};
    if (string.count == 0)
        return STATUS_OK;
    *out = run->pieces[string.first].text;
    if (string.count == 1)
        return STATUS_OK;
    void *memory = NULL;
    size_t length = template_string_length(run, string);
    TRY(template_run_charge(run, length + string.count * (size_t)TEMPLATE_STEP_BYTES));
    TRY(template_run_alloc(run, length, &memory));
    char *bytes = memory;
    *out = (struct slice){bytes, length};
    for (uint32_t i = 0; i < string.count; i++) {
        struct slice text = run->pieces[string.first + i].text;
        memcpy(bytes, text.bytes, text.length);
        bytes += text.length;
    }
    return STATUS_OK;
}

bool template_string_is_own(const struct template_run *run, struct template_value string)
{
    for (uint32_t i = 0; i < string.count; i++) {
        if (!run->pieces[string.first + i].is_own)
            return false;
    }
    return true;
}

bool template_string_is(const struct template_run *run, struct template_value string,
                        struct slice text)
{
    size_t at = 0;
    for (uint32_t i = 0; i < string.count; i++) {
        struct slice piece = run->pieces[string.first + i].text;
        if (piece.length > text.length - at ||
            memcmp(piece.bytes, text.bytes + at, piece.length) != 0)
            return false;
        at += piece.length;
    }
    return at == text.length;
}

enum status template_string_cut(struct template_run *run, struct template_value string, size_t from,
                                size_t to, struct template_value *out)
{
    size_t before = 0; /* bytes of the pieces already passed */
    *out = (struct template_value){.kind = TEMPLATE_STRING, .first = run->piece_count};
    TRY(template_run_charge(run, string.count * sizeof(struct template_piece)));
    for (uint32_t i = 0; i < string.count && before < to; i++) {
        struct template_piece piece = run->pieces[string.first + i];
        size_t length = piece.text.length;
        size_t begin = from > before ? from - before : 0;
        size_t end = to - before < length ? to - before : length;
        before += length;
        if (begin >= end)
            continue;
        piece.text = (struct slice){piece.text.bytes + begin, end - begin};
        TRY(template_run_add_piece(run, piece));
        out->count++;
    }
    return STATUS_OK;
}

/* Lists that follow each other, as operands just pushed do, are joined without a copy; a left list
 * at the end of all pieces is not copied either. */
enum status template_string_add(struct template_run *run, struct template_value left,
                                struct template_value right, struct template_value *out)
{
    *out = left.count == 0 ? right : left;
    if (left.count == 0 || right.count == 0)
        return STATUS_OK;
    ASSERT(right.count <= UINT32_MAX - left.count); /* pieces are bounded by the bytes of values */
    out->count = left.count + right.count;
    if (left.first + left.count == right.first)
        return STATUS_OK;
    if (left.first + left.count != run->piece_count) {
        out->first = run->piece_count;
        for (uint32_t i = 0; i < left.count; i++) {
            TRY(template_run_charge(run, 0));
            TRY(template_run_add_piece(run, run->pieces[left.first + i]));
        }
    }
    for (uint32_t i = 0; i < right.count; i++) {
        TRY(template_run_charge(run, 0));
        TRY(template_run_add_piece(run, run->pieces[right.first + i]));
    }
    return STATUS_OK;
}

/* In UTF-8 the order of bytes is that of code points. */
enum status template_string_compare(struct template_run *run, struct template_value left,
                                    struct template_value right, int *order)
{
    uint32_t a = 0;
    uint32_t b = 0;
    size_t a_done = 0; /* bytes of the current piece that are compared */
    size_t b_done = 0;
    *order = 0;
    while (a < left.count && b < right.count) {
        struct slice x = run->pieces[left.first + a].text;
        struct slice y = run->pieces[right.first + b].text;
        size_t length = x.length - a_done;
        if (length > y.length - b_done)
            length = y.length - b_done;
        TRY(template_run_charge(run, length));
        int differs = memcmp(x.bytes + a_done, y.bytes + b_done, length);
        if (differs != 0) {
            *order = differs < 0 ? -1 : 1;
            return STATUS_OK;
        }
        a_done += length;
        b_done += length;
        if (a_done == x.length) {
            a++;
            a_done = 0;
        }
        if (b_done == y.length) {
            b++;
            b_done = 0;
        }
    }
    *order = (a < left.count) - (b < right.count);
    return STATUS_OK;
}

size_t template_string_find(struct slice hay, size_t from, struct slice needle)
{
    if (from > hay.length || needle.length > hay.length - from)
        return SIZE_MAX;
    if (needle.length == 0)
        return from;
    const char *at = memmem(hay.bytes + from, hay.length - from, needle.bytes, needle.length);
    return at == NULL ? SIZE_MAX : (size_t)(at - hay.bytes);
}

/* White space as in Python's str.strip(). */
static bool blank_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

static bool blank_is(const char *bytes, size_t length, struct slice chars)
{
    if (chars.bytes == NULL)
        return blank_is_space(utf8_decode(bytes, length));
    return template_string_find(chars, 0, (struct slice){bytes, length}) != SIZE_MAX;
}

size_t template_string_blank(struct slice text, struct slice chars, bool at_end)
{
    size_t done = 0;
    while (done < text.length) {
        size_t length = 1;
        const char *at = text.bytes + done;
        if (at_end) {
            at = text.bytes + text.length - done - 1;
            while (((unsigned char)*at & 0xc0) == 0x80 && at > text.bytes) {
                at--;
                length++;
            }
        }
        size_t valid = utf8_sequence_length(at, text.length - (size_t)(at - text.bytes));
        if (valid == 0 || (at_end && valid != length) || !blank_is(at, valid, chars))
            break;
        done += valid;
    }
    return done;
}

enum status template_string_strip(struct template_run *run, struct template_value string,
                                  struct template_value chars, bool at_start, bool at_end,
                                  struct template_value *out)
{
    struct slice text;
    struct slice set = {NULL, 0};
    if (chars.kind == TEMPLATE_STRING)
        TRY(template_string_flat(run, chars, &set));
    else if (chars.kind != TEMPLATE_ABSENT && chars.kind != TEMPLATE_NONE)
        TEMPLATE_FAIL(run, STATUS_INVALID, "what is stripped must be a string");
    TRY(template_string_flat(run, string, &text));
    TRY(template_run_charge(run, text.length));
    size_t from = at_start ? template_string_blank(text, set, false) : 0;
    struct slice rest = {text.bytes + from, text.length - from};
    size_t end = at_end ? template_string_blank(rest, set, true) : 0;
    return template_string_cut(run, string, from, text.length - end, out);
}

size_t template_string_line_end(struct slice text, size_t at)
{
    static const char *const ends[] = {"\r\n",     "\n",           "\r",          "\v",
                                       "\f",       "\x1c",         "\x1d",        "\x1e",
                                       "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    unsigned char c = (unsigned char)text.bytes[at];
    if (c > 0x1e && c != 0xc2 && c != 0xe2)
        return 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct slice end = slice_of(ends[i]);
        if (slice_starts_with((struct slice){text.bytes + at, text.length - at}, end))
            return end.length;
    }
    return 0;
}

/* --- writers --- */

void template_string_begin(struct template_writer *writer, struct template_run *run)
{
    *writer = (struct template_writer){.run = run};
    buffer_init(&writer->bytes, LIMIT_TEMPLATE_OUTPUT_BYTES);
}

static enum status write_origin(struct template_writer *writer, bool is_own)
{
    size_t count = writer->origin_count;
    size_t end = writer->bytes.length;
    if (count > 0 && writer->origins[count - 1].is_own == is_own) {
        writer->origins[count - 1].end = end;
        return STATUS_OK;
    }
    if (count == writer->origin_capacity) {
        size_t capacity = count == 0 ? 16 : count * 2;
        struct template_origin *origins = mem_realloc(writer->origins, capacity * sizeof(*origins));
        if (origins == NULL)
            TEMPLATE_FAIL(writer->run, STATUS_NO_MEMORY, "out of memory");
        writer->origins = origins;
        writer->origin_capacity = capacity;
    }
    TRY(template_run_count(writer->run, sizeof(*writer->origins)));
    writer->origins[writer->origin_count++] = (struct template_origin){end, is_own};
    return STATUS_OK;
}

enum status template_string_write(struct template_writer *writer, struct slice text, bool is_own)
{
    struct template_run *run = writer->run;
    if (text.length == 0)
        return STATUS_OK;
    if (text.length > LIMIT_TEMPLATE_OUTPUT_BYTES - writer->bytes.length)
        TEMPLATE_FAIL(run, STATUS_TEMPLATE_LIMIT, "the output is too long");
    TRY(template_run_charge(run, text.length));
    TRY(template_run_count(run, text.length));
    buffer_append_slice(&writer->bytes, text);
    if (writer->bytes.status != STATUS_OK)
        TEMPLATE_FAIL(run, STATUS_NO_MEMORY, "out of memory");
    return write_origin(writer, is_own);
}

enum status template_string_write_value(struct template_writer *writer,
                                        struct template_value string)
{
    for (uint32_t i = 0; i < string.count; i++) {
        struct template_piece piece = writer->run->pieces[string.first + i];
        TRY(template_string_write(writer, piece.text, piece.is_own));
    }
    return STATUS_OK;
}

enum status template_string_write_range(struct template_writer *writer,
                                        struct template_value string, size_t from, size_t to,
                                        uint32_t *piece, size_t *before)
{
    while (from < to) {
        ASSERT(*piece < string.count);
        struct template_piece one = writer->run->pieces[string.first + *piece];
        size_t end = *before + one.text.length;
        if (from >= end) {
            *before = end;
            ++*piece;
            TRY(template_run_charge(writer->run, 0));
            continue;
        }
        size_t stop = to < end ? to : end;
        TRY(template_string_write(
            writer, (struct slice){one.text.bytes + (from - *before), stop - from}, one.is_own));
        from = stop;
    }
    return STATUS_OK;
}

enum status template_string_finish(struct template_writer *writer, struct template_value *out)
{
    struct template_run *run = writer->run;
    void *memory = NULL;
    size_t length = writer->bytes.length;
    *out = (struct template_value){.kind = TEMPLATE_STRING, .first = run->piece_count};
    if (length == 0)
        return STATUS_OK;
    TRY(template_run_alloc(run, length, &memory));
    char *bytes = memory;
    memcpy(bytes, writer->bytes.bytes, length);
    size_t begin = 0;
    for (size_t i = 0; i < writer->origin_count; i++) {
        struct template_origin origin = writer->origins[i];
        TRY(template_run_add_piece(
            run, (struct template_piece){{bytes + begin, origin.end - begin}, origin.is_own}));
        begin = origin.end;
    }
    out->count = (uint32_t)writer->origin_count;
    return STATUS_OK;
}

void template_string_drop(struct template_writer *writer)
{
    size_t bytes = writer->bytes.length + writer->origin_count * sizeof(*writer->origins);
    ASSERT(writer->run->bytes >= bytes);
    writer->run->bytes -= bytes; /* counted as they were written; what is kept was counted again */
    buffer_deinit(&writer->bytes);
    mem_free(writer->origins);
    writer->origins = NULL;
    writer->origin_count = 0;
}

static enum status escape_write(struct template_writer *writer, struct template_piece piece)
{
    static const char special[] = "&<>'\"";
    static const char *const escapes[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct slice text = piece.text;
    size_t done = 0;
    for (size_t at = 0; at < text.length; at++) {
        const char *found = memchr(special, text.bytes[at], sizeof special - 1);
        if (found == NULL)
            continue;
        TRY(template_string_write(writer, (struct slice){text.bytes + done, at - done},
                                  piece.is_own));
        TRY(template_string_write(writer, slice_of(escapes[found - special]), piece.is_own));
        done = at + 1;
    }
    return template_string_write(writer, (struct slice){text.bytes + done, text.length - done},
                                 piece.is_own);
}

enum status template_string_escape(struct template_run *run, struct template_value string,
                                   struct template_value *out)
{
    struct template_writer writer;
    enum status status = STATUS_OK;
    template_string_begin(&writer, run);
    for (uint32_t i = 0; i < string.count && status == STATUS_OK; i++)
        status = escape_write(&writer, run->pieces[string.first + i]);
    if (status == STATUS_OK)
        status = template_string_finish(&writer, out);
    template_string_drop(&writer);
    return status;
}
