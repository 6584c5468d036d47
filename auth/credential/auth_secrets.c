#include "auth/credential/auth_secrets.h"

#include "auth/credential/auth_file.h"
#include "config/base/limits.h"
#include "config/base/random_bytes.h"

static const char file_name[] = "secrets";
static const struct slice first_line = {"banyan-secrets 1\n", 17};

static bool take_hex_digit(char c, uint8_t *out)
{
    if (c >= '0' && c <= '9')
        *out = (uint8_t)(c - '0');
    else if (c >= 'a' && c <= 'f')
        *out = (uint8_t)(c - 'a' + 10);
    else
        return false;
    return true;
}

/* Takes `name`, 64 hex digits and the end of the line off the beginning of `text`. */
static bool read_line(struct slice *text, const char *name, uint8_t out[AUTH_CRYPTO_BYTES])
{
    struct slice prefix = slice_of(name);
    size_t length = prefix.length + 2 * AUTH_CRYPTO_BYTES + 1;
    if (text->length < length || !slice_starts_with(*text, prefix) ||
        text->bytes[length - 1] != '\n')
        return false;
    for (size_t i = 0; i < AUTH_CRYPTO_BYTES; i++) {
        uint8_t high;
        uint8_t low;
        if (!take_hex_digit(text->bytes[prefix.length + 2 * i], &high) ||
            !take_hex_digit(text->bytes[prefix.length + 2 * i + 1], &low))
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    *text = (struct slice){text->bytes + length, text->length - length};
    return true;
}

static enum status read_parse(struct slice text, struct auth_secrets *out)
{
    bool is_right = slice_starts_with(text, first_line);
    if (is_right)
        text = (struct slice){text.bytes + first_line.length, text.length - first_line.length};
    if (!is_right || !read_line(&text, "pepper ", out->pepper) ||
        !read_line(&text, "domain ", out->domain) || text.length != 0)
        FAIL(STATUS_CORRUPT, "the file of secrets does not have the form this version writes");
    return STATUS_OK;
}

static void forget_buffer(struct buffer *buffer)
{
    if (buffer->bytes != NULL)
        auth_crypto_forget(buffer->bytes, buffer->capacity);
    buffer_deinit(buffer);
}

enum status auth_secrets_read(const char *folder, struct auth_secrets *out)
{
    struct buffer text;
    buffer_init(&text, LIMIT_SECRETS_BYTES);
    enum status status = auth_file_read(folder, file_name, &text);
    if (status == STATUS_OK)
        status = read_parse(buffer_slice(&text), out);
    forget_buffer(&text);
    return status;
}

static void make_line(struct buffer *text, const char *name,
                      const uint8_t secret[AUTH_CRYPTO_BYTES])
{
    buffer_append_text(text, name);
    for (size_t i = 0; i < AUTH_CRYPTO_BYTES; i++)
        buffer_printf(text, "%02x", secret[i]);
    buffer_append_char(text, '\n');
}

enum status auth_secrets_make(const char *folder, struct auth_secrets *out)
{
    struct buffer text;
    buffer_init(&text, LIMIT_SECRETS_BYTES);
    random_bytes(out, sizeof *out);
    buffer_append_slice(&text, first_line);
    make_line(&text, "pepper ", out->pepper);
    make_line(&text, "domain ", out->domain);
    enum status status = text.status;
    if (status == STATUS_OK)
        status = auth_file_write(folder, file_name, buffer_slice(&text), false);
    forget_buffer(&text);
    return status == STATUS_EXISTS ? auth_secrets_read(folder, out) : status;
}
