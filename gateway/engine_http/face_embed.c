#include "gateway/engine_http/face_embed.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "clients read little-endian numbers");

/* Appends a string of base64 (RFC 4648, 4). */
static void write_base64(struct slice bytes, struct buffer *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = (const unsigned char *)bytes.bytes;
    buffer_append_char(out, '"');
    for (size_t at = 0; at < bytes.length; at += 3) {
        const size_t left = bytes.length - at;
        const uint32_t three = (uint32_t)from[at] << 16 |
                               (uint32_t)(left > 1 ? from[at + 1] : 0) << 8 |
                               (uint32_t)(left > 2 ? from[at + 2] : 0);
        const char four[4] = {letters[three >> 18], letters[three >> 12 & 63],
                              left > 1 ? letters[three >> 6 & 63] : '=',
                              left > 2 ? letters[three & 63] : '='};
        buffer_append(out, four, sizeof four);
    }
    buffer_append_char(out, '"');
}

/* Nine digits give each float32 back as it was. */
static void write_numbers(struct slice bytes, struct buffer *out)
{
    for (size_t at = 0; at < bytes.length; at += sizeof(float)) {
        float number;
        memcpy(&number, bytes.bytes + at, sizeof number);
        buffer_printf(out, "%c%.9g", at == 0 ? '[' : ',', (double)number);
    }
    buffer_append_char(out, ']');
}

void face_embed_write(const char *model, uint32_t index, struct slice vector, bool is_base64,
                      struct buffer *out)
{
    buffer_append_text(out, "{\"n\":0,\"model\":");
    buffer_append_json_string(out, slice_of(model));
    buffer_printf(out, ",\"data\":[{\"object\":\"embedding\",\"index\":%u,\"embedding\":", index);
    if (is_base64)
        write_base64(vector, out);
    else
        write_numbers(vector, out);
    buffer_append_text(out, "}]}");
}
