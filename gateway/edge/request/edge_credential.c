#include "gateway/edge/request/edge_credential.h"

#include <strings.h>

enum status edge_credential_bearer(struct slice header, struct slice *out)
{
    static const char scheme[] = "bearer";
    size_t length = sizeof scheme - 1;
    *out = (struct slice){0};
    if (header.length < length || strncasecmp(header.bytes, scheme, length) != 0 ||
        (header.length > length && header.bytes[length] != ' '))
        FAIL(STATUS_KEY_INVALID, "Send the API key as 'Authorization: Bearer KEY'.");
    size_t start = length;
    size_t end = header.length;
    while (start < end && header.bytes[start] == ' ')
        start++;
    while (end > start && header.bytes[end - 1] == ' ')
        end--;
    struct slice key = {header.bytes + start, end - start};
    if (memchr(key.bytes, ' ', key.length) != NULL)
        FAIL(STATUS_KEY_INVALID, "An API key has no spaces in it.");
    *out = key;
    return STATUS_OK;
}

enum status edge_credential_read_head(const struct listener_head *head, struct slice *out)
{
    *out = (struct slice){0};
    if (head->authorizations > 1 || head->api_keys > 1)
        FAIL(STATUS_KEY_INVALID, "The request carries more than one API key.");
    if (head->authorization.length != 0)
        return edge_credential_bearer(head->authorization, out);
    *out = head->api_key;
    return STATUS_OK;
}

enum status edge_credential_read(const struct http_request *request, struct slice *out)
{
    return edge_credential_read_head(
        &(struct listener_head){.authorization = http_header_get(request, "authorization"),
                                .api_key = http_header_get(request, "x-api-key"),
                                .authorizations =
                                    (uint32_t)http_header_count(request, "authorization"),
                                .api_keys = (uint32_t)http_header_count(request, "x-api-key")},
        out);
}

enum status edge_credential_check(struct auth *auth, const struct http_request *request,
                                  bool want_admin, struct principal *out)
{
    struct auth_credential credential = {0};
    credential.certificate = http_peer_certificate(request, &credential.must_agree);
    TRY(edge_credential_read(request, &credential.text));
    TRY(auth_authenticate(auth, &credential, want_admin, out));
    if (http_body_is_cut(request)) /* the credential became known after the head had come */
        FAIL(STATUS_UNAVAILABLE,
             "The body was not read, because the credential was not known when it came; send the "
             "request again.");
    return STATUS_OK;
}
