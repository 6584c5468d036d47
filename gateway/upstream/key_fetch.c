#include "gateway/upstream/key_fetch.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <resolv.h>
#include <strings.h>
#include <unistd.h>

#include "config/base/limits.h"
#include "gateway/upstream/https_client.h"
#include "gateway/upstream/upstream_url.h"

enum { PORT_TLS = 443, NAMESERVER_S = 2, NAMESERVER_TRIES = 2 };

/* --- hosts and URLs --- */

/* Takes the next host off a list with commas or spaces between hosts; false at its end. */
static bool hosts_next(struct slice *rest, struct slice *out)
{
    while (rest->length > 0 && (rest->bytes[0] == ',' || rest->bytes[0] == ' '))
        *rest = (struct slice){rest->bytes + 1, rest->length - 1};
    size_t length = 0;
    while (length < rest->length && rest->bytes[length] != ',' && rest->bytes[length] != ' ')
        length++;
    *out = (struct slice){rest->bytes, length};
    *rest = (struct slice){rest->bytes + length, rest->length - length};
    return length > 0;
}

enum status key_fetch_ports(const char *hosts, uint16_t *ports, size_t capacity, size_t *count)
{
    struct slice rest = slice_of(hosts);
    struct slice text;
    struct upstream_authority authority;
    *count = 0;
    while (hosts_next(&rest, &text)) {
        if (!upstream_url_authority(text, &authority))
            FAIL_PARAM(STATUS_INVALID, "jwks_hosts",
                       "jwks_hosts must be names or name:port, with commas between them");
        uint16_t port = authority.port != 0 ? authority.port : PORT_TLS;
        size_t at = 0;
        while (at < *count && ports[at] != port)
            at++;
        if (at == capacity)
            FAIL_PARAM(STATUS_LIMIT, "jwks_hosts", "jwks_hosts has more than %zu ports", capacity);
        if (at == *count)
            ports[(*count)++] = port;
    }
    return STATUS_OK;
}

static enum status url_check(const char *text, const char *hosts, struct upstream_url *out)
{
    struct slice rest = slice_of(hosts);
    struct slice one;
    struct upstream_authority named;
    if (!upstream_url_read(text, out))
        FAIL_PARAM(STATUS_INVALID, "jwks_url",
                   "jwks_url must be https://HOST[:PORT]/PATH, without a fragment.");
    if (out->is_plain && !upstream_url_is_loopback(out->authority.host))
        FAIL_PARAM(STATUS_FORBIDDEN, "jwks_url",
                   "Without TLS, jwks_url may only name an address of this machine (127.0.0.1).");
    while (hosts_next(&rest, &one)) {
        if (upstream_url_authority(one, &named) &&
            named.host.length == out->authority.host.length &&
            strncasecmp(named.host.bytes, out->authority.host.bytes, named.host.length) == 0 &&
            (named.port != 0 ? named.port : PORT_TLS) == out->authority.port)
            return STATUS_OK;
    }
    FAIL_PARAM(STATUS_FORBIDDEN, "jwks_url",
               "The server may not fetch keys from the host and port of jwks_url; its operator "
               "allows hosts with --jwks-hosts.");
}

enum status key_fetch_check(const char *url, const char *hosts)
{
    struct upstream_url read;
    return url_check(url, hosts, &read);
}

/* --- addresses --- */

static bool accepts_four(uint32_t address)
{
    return address >> 24 != 0 &&      /* 0.0.0.0/8: this network */
           address >> 16 != 0xA9FE && /* 169.254.0.0/16: link-local, cloud metadata services */
           address >> 28 < 0xE;       /* 224.0.0.0/4 multicast, 240.0.0.0/4 reserved, broadcast */
}

bool key_fetch_accepts(const struct sockaddr *address)
{
    static const struct in6_addr metadata = {
        /* fd00:ec2::254, the metadata service of a cloud */
        {{0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54}}};
    if (address->sa_family == AF_INET)
        return accepts_four(
            ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
    if (address->sa_family != AF_INET6)
        return false;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    uint32_t last;
    memcpy(&last, six->s6_addr + 12, sizeof last);
    if (IN6_IS_ADDR_V4MAPPED(six))
        return accepts_four(ntohl(last));
    return !IN6_IS_ADDR_UNSPECIFIED(six) && !IN6_IS_ADDR_LINKLOCAL(six) &&
           !IN6_IS_ADDR_MULTICAST(six) && !IN6_IS_ADDR_V4COMPAT(six) &&
           memcmp(six, &metadata, sizeof metadata) != 0;
}

/* --- the exchange --- */

/* Sets the resolver's timeouts, so that a nameserver that does not answer blocks this thread, and a
 * shutdown that waits for it, for seconds instead of half a minute. Once a program has set
 * timeouts, glibc no longer reloads resolv.conf when it changes; so we read the file at each call.
 * If the sandbox hides the file, the settings read last stay: Landlock lets us open the file that
 * was there at the start, but not a file that has replaced it. */
static void fetch_hurry_resolver(void)
{
    int file = open(_PATH_RESCONF, O_RDONLY | O_CLOEXEC);
    if (file >= 0)
        close(file);
    if (file < 0 && _res.retrans == NAMESERVER_S)
        return;
    if ((_res.options & RES_INIT) != 0)
        res_nclose(&_res);
    memset(&_res, 0, sizeof _res); /* res_init keeps timeouts that are set */
    if (res_init() != 0)
        return;
    _res.retrans = NAMESERVER_S;
    _res.retry = NAMESERVER_TRIES;
}

static enum status fetch_call(struct https_client *https, const char *path, struct buffer *out)
{
    const struct https_client_request request = {
        .method = "GET", .path = path, .headers = "connection: close\r\nuser-agent: banyan\r\n"};
    struct https_client_answer answer;
    https_client_answer_init(&answer);
    enum status status = https_client_call(https, &request, &answer);
    if (status == STATUS_OK && answer.code != 200)
        status = status_fail(STATUS_UNAVAILABLE, __FILE__, __LINE__, NULL,
                             "the key set's URL was answered with HTTP %d", answer.code);
    if (status == STATUS_OK) {
        buffer_append_slice(out, buffer_slice(&answer.body));
        status = out->status;
    }
    https_client_answer_deinit(&answer);
    return status;
}

enum status key_fetch(const struct key_fetch_options *options, struct buffer *out)
{
    struct upstream_url url;
    struct https_client *https = NULL;
    char origin[LIMIT_JWKS_URL_BYTES];
    TRY(url_check(options->url, options->hosts, &url));
    if (url.origin.length >= sizeof origin)
        FAIL_PARAM(STATUS_INVALID, "jwks_url", "jwks_url is too long");
    memcpy(origin, url.origin.bytes, url.origin.length);
    origin[url.origin.length] = '\0';
    fetch_hurry_resolver();
    TRY(https_client_open(&https, &(struct https_client_options){.url = origin,
                                                                 .ca_file = options->ca_file,
                                                                 .timeout_ms = LIMIT_JWKS_FETCH_MS,
                                                                 .may_be_plain = url.is_plain,
                                                                 .answer_bytes = LIMIT_JWKS_BYTES,
                                                                 .accepts = key_fetch_accepts,
                                                                 .is_over = options->is_over}));
    enum status status = fetch_call(https, url.path, out);
    https_client_close(https);
    return status;
}
