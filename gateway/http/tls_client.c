#include "gateway/http/tls_client.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "config/base/mem.h"

struct tls_client_trust {
    X509_STORE *store;
    STACK_OF(X509_NAME) * names; /* sent to clients, so that they can choose a certificate */
    uint64_t generation;         /* increases with each reading in the process */
};

struct tls_client {
    X509 *leaf;
    STACK_OF(X509) * above;
    struct peer_certificate peer;
    char *texts;                   /* the bytes of the peer's names */
    enum tls_client_reason own;    /* what is wrong with its contents; does not change */
    enum tls_client_reason reason; /* the result of the last check */
    uint64_t generation;           /* of the authorities at the last check; 0 = not checked yet */
    int64_t until_s;               /* Unix time: its chain or a revocation list ends, check again */
};

enum { STRENGTH_LEVEL = 2 }; /* OpenSSL's: 112 bits, so RSA from 2048 and no SHA-1 */

static const struct {
    const char *word;
    const char *sentence;
} reasons[TLS_CLIENT_REASONS] = {
    {"fine", ""},
#define TLS_CLIENT_REASON(name, word, sentence) {word, sentence},
#include "gateway/http/tls_client_reasons.def"
#undef TLS_CLIENT_REASON
};

const char *tls_client_word(enum tls_client_reason reason)
{
    return reasons[reason].word;
}

const char *tls_client_sentence(enum tls_client_reason reason)
{
    return reasons[reason].sentence;
}

/* --- authorities --- */

static enum status open_fail(enum status status, const char *what, const char *path)
{
    const char *cause = ERR_reason_error_string(ERR_peek_last_error());
    FAIL(status, "the file of %s %s cannot be used (%s)", what, path,
         cause != NULL ? cause : "no reason given");
}

static enum status open_read(struct tls_client_trust *authorities, const char *ca_path,
                             const char *crl_path)
{
    X509_LOOKUP *lookup = X509_STORE_add_lookup(authorities->store, X509_LOOKUP_file());
    if (lookup == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for authorities of clients");
    authorities->names = SSL_load_client_CA_file(ca_path);
    if (authorities->names == NULL || X509_load_cert_file(lookup, ca_path, X509_FILETYPE_PEM) < 1)
        return open_fail(STATUS_IO, "authorities of clients", ca_path);
    if (crl_path[0] == '\0')
        return STATUS_OK;
    if (X509_load_crl_file(lookup, crl_path, X509_FILETYPE_PEM) < 1)
        return open_fail(STATUS_IO, "revocation lists", crl_path);
    X509_STORE_set_flags(authorities->store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    return STATUS_OK;
}

enum status tls_client_trust_open(struct tls_client_trust **out, const char *ca_path,
                                  const char *crl_path)
{
    static atomic_uint_fast64_t generations;
    struct tls_client_trust *authorities = mem_zalloc(1, sizeof(*authorities));
    *out = NULL;
    if (authorities == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for authorities of clients");
    ERR_clear_error();
    authorities->generation = atomic_fetch_add(&generations, 1) + 1;
    authorities->store = X509_STORE_new();
    enum status status = STATUS_NO_MEMORY;
    if (authorities->store != NULL)
        status = open_read(authorities, ca_path, crl_path);
    ERR_clear_error();
    if (status == STATUS_OK)
        *out = authorities;
    else
        tls_client_trust_close(authorities);
    return status;
}

void tls_client_trust_close(struct tls_client_trust *authorities)
{
    if (authorities == NULL)
        return;
    X509_STORE_free(authorities->store);
    sk_X509_NAME_pop_free(authorities->names, X509_NAME_free);
    mem_free(authorities);
}

/* Limits what a client may send before it has proved anything: OpenSSL keeps small certificates in
 * ten times their bytes until the connection ends, and to verify a proof by a key of 16,384 bits
 * takes 4 ms on the loop's thread. */
static bool ask_is_modest(const X509 *leaf, const STACK_OF(X509) * shown)
{
    EVP_PKEY *key = X509_get0_pubkey(leaf);
    return sk_X509_num(shown) <= LIMIT_CLIENT_SHOWN &&
           (key == NULL || EVP_PKEY_get_bits(key) <= LIMIT_RSA_BITS);
}

/* Replaces OpenSSL's verification. It accepts every certificate within the limits, because an
 * answer to a request can say what is wrong and a handshake cannot; the listener checks the
 * certificate. */
static int ask_shown(X509_STORE_CTX *context, void *argument)
{
    const struct tls_client_hook *hook = argument;
    SSL *ssl = X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx());
    X509 *leaf = X509_STORE_CTX_get0_cert(context);
    STACK_OF(X509) *shown = X509_STORE_CTX_get0_untrusted(context); /* with the leaf */
    struct tls_client *client = ask_is_modest(leaf, shown) ? tls_client_open(leaf, shown) : NULL;
    if (client == NULL)
        return 0;
    hook->shown(BIO_get_data(SSL_get_rbio(ssl)), client);
    X509_STORE_CTX_set_error(context, X509_V_OK);
    return 1;
}

enum status tls_client_trust_ask(const struct tls_client_trust *authorities, SSL_CTX *ssl,
                                 const struct tls_client_hook *hook)
{
    STACK_OF(X509_NAME) *names = SSL_dup_CA_list(authorities->names);
    if (names == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for authorities of clients");
    SSL_CTX_set_client_CA_list(ssl, names);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_cert_verify_callback(ssl, ask_shown, (void *)(uintptr_t)hook);
    SSL_CTX_set_max_cert_list(ssl, LIMIT_CLIENT_CHAIN_BYTES);
    return STATUS_OK;
}

/* --- the contents of a certificate --- */

/* Copies a name, a DNS name in lower case; `out` has room. False when it has bytes other than
 * visible ASCII. */
static bool name_copy(const ASN1_STRING *name, bool is_dns, char *out)
{
    const unsigned char *bytes = ASN1_STRING_get0_data(name);
    int length = ASN1_STRING_length(name);
    for (int i = 0; i < length; i++) {
        unsigned char c = bytes[i];
        if (c <= ' ' || c >= 0x7f)
            return false;
        out[i] = (char)(is_dns && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    out[length] = '\0';
    return true;
}

/* A wildcard is the name of many machines and identifies none; a name that is longer than a row's
 * value can equal none. */
static bool name_is_used(const ASN1_STRING *name, bool is_dns)
{
    int length = ASN1_STRING_length(name);
    return length > 0 && length < LIMIT_PEER_NAME_BYTES &&
           !(is_dns && memchr(ASN1_STRING_get0_data(name), '*', (size_t)length) != NULL);
}

static enum tls_client_reason names_read(struct tls_client *client, const GENERAL_NAMES *names)
{
    char *at = client->texts;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int type;
        const ASN1_STRING *name = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        bool is_dns = type == GEN_DNS;
        char text[LIMIT_PEER_NAME_BYTES];
        if (!is_dns && type != GEN_URI)
            continue;
        if (memchr(ASN1_STRING_get0_data(name), '\0', (size_t)ASN1_STRING_length(name)) != NULL)
            return TLS_CLIENT_NAME;
        if (!name_is_used(name, is_dns))
            continue;
        if (!name_copy(name, is_dns, text))
            return TLS_CLIENT_NAME;
        if (client->peer.name_count == LIMIT_PEER_NAMES)
            return TLS_CLIENT_NAMES;
        size_t length = (size_t)ASN1_STRING_length(name);
        memcpy(at, text, length + 1);
        client->peer.names[client->peer.name_count++] =
            (struct peer_name){is_dns ? PEER_NAME_DNS : PEER_NAME_URI, {at, length}};
        at += length + 1;
    }
    return TLS_CLIENT_FINE;
}

/* The bytes that all names together need, at most. */
static size_t names_bytes(const GENERAL_NAMES *names)
{
    size_t bytes = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int type;
        const ASN1_STRING *name = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        if ((type == GEN_DNS || type == GEN_URI) && name_is_used(name, type == GEN_DNS))
            bytes += (size_t)ASN1_STRING_length(name) + 1;
    }
    return bytes < LIMIT_PEER_NAMES * LIMIT_PEER_NAME_BYTES
               ? bytes
               : LIMIT_PEER_NAMES * LIMIT_PEER_NAME_BYTES;
}

static enum tls_client_reason open_names(struct tls_client *client)
{
    int found;
    GENERAL_NAMES *names = X509_get_ext_d2i(client->leaf, NID_subject_alt_name, &found, NULL);
    if (names == NULL)
        return found == -1 ? TLS_CLIENT_FINE : TLS_CLIENT_OTHER; /* no names; else malformed */
    enum tls_client_reason reason = TLS_CLIENT_OTHER;
    client->texts = mem_alloc(names_bytes(names) + 1);
    if (client->texts != NULL)
        reason = names_read(client, names);
    GENERAL_NAMES_free(names);
    return reason;
}

static enum tls_client_reason open_own(struct tls_client *client)
{
    unsigned length = 0;
    EVP_PKEY *key = X509_get0_pubkey(client->leaf);
    if (X509_digest(client->leaf, EVP_sha256(), client->peer.fingerprint, &length) != 1 ||
        length != sizeof(client->peer.fingerprint) || key == NULL)
        return TLS_CLIENT_OTHER;
    if (EVP_PKEY_get_security_bits(key) < 112)
        return TLS_CLIENT_WEAK;
    enum tls_client_reason reason = open_names(client);
    if (reason != TLS_CLIENT_FINE)
        client->peer.name_count = 0;
    return reason;
}

struct tls_client *tls_client_open(X509 *leaf, STACK_OF(X509) * above)
{
    struct tls_client *client = mem_zalloc(1, sizeof(*client));
    if (client == NULL)
        return NULL;
    client->above = above != NULL ? X509_chain_up_ref(above) : NULL;
    if (above != NULL && client->above == NULL) {
        mem_free(client);
        return NULL;
    }
    X509_up_ref(leaf);
    client->leaf = leaf;
    client->own = open_own(client);
    client->reason = TLS_CLIENT_OTHER; /* until the first check */
    ERR_clear_error();
    return client;
}

void tls_client_close(struct tls_client *client)
{
    if (client == NULL)
        return;
    X509_free(client->leaf);
    sk_X509_pop_free(client->above, X509_free);
    mem_free(client->texts);
    mem_free(client);
}

const struct peer_certificate *tls_client_peer(const struct tls_client *client)
{
    return &client->peer;
}

enum tls_client_reason tls_client_reason(const struct tls_client *client)
{
    return client->reason;
}

/* --- the check --- */

static enum tls_client_reason judge_error(int error)
{
    static const struct {
        int error;
        enum tls_client_reason reason;
    } known[] = {
        {X509_V_OK, TLS_CLIENT_FINE},
        {X509_V_ERR_CERT_HAS_EXPIRED, TLS_CLIENT_EXPIRED},
        {X509_V_ERR_CERT_NOT_YET_VALID, TLS_CLIENT_EARLY},
        {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, TLS_CLIENT_SELF_SIGNED},
        {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, TLS_CLIENT_STRANGER},
        {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, TLS_CLIENT_STRANGER},
        {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, TLS_CLIENT_STRANGER},
        {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, TLS_CLIENT_STRANGER},
        {X509_V_ERR_CERT_UNTRUSTED, TLS_CLIENT_STRANGER},
        {X509_V_ERR_INVALID_CA, TLS_CLIENT_STRANGER},
        {X509_V_ERR_CERT_SIGNATURE_FAILURE, TLS_CLIENT_SIGNATURE},
        {X509_V_ERR_CERT_REVOKED, TLS_CLIENT_REVOKED},
        {X509_V_ERR_UNABLE_TO_GET_CRL, TLS_CLIENT_LIST_MISSING},
        {X509_V_ERR_CRL_HAS_EXPIRED, TLS_CLIENT_LIST_OLD},
        {X509_V_ERR_CRL_NOT_YET_VALID, TLS_CLIENT_LIST_OLD},
        {X509_V_ERR_INVALID_PURPOSE, TLS_CLIENT_PURPOSE},
        {X509_V_ERR_CERT_CHAIN_TOO_LONG, TLS_CLIENT_CHAIN},
        {X509_V_ERR_PATH_LENGTH_EXCEEDED, TLS_CLIENT_CHAIN},
        {X509_V_ERR_EE_KEY_TOO_SMALL, TLS_CLIENT_WEAK},
        {X509_V_ERR_CA_KEY_TOO_SMALL, TLS_CLIENT_WEAK},
        {X509_V_ERR_CA_MD_TOO_WEAK, TLS_CLIENT_WEAK},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].error == error)
            return known[i].reason;
    }
    return TLS_CLIENT_OTHER;
}

static int64_t judge_seconds(const ASN1_TIME *time)
{
    struct tm parts;
    return ASN1_TIME_to_tm(time, &parts) == 1 ? (int64_t)timegm(&parts) : 0;
}

/* The Unix time at which the first certificate of a valid chain expires. */
static int64_t judge_until(STACK_OF(X509) * chain)
{
    int64_t until_s = INT64_MAX;
    for (int i = 0; i < sk_X509_num(chain); i++) {
        int64_t end_s = judge_seconds(X509_get0_notAfter(sk_X509_value(chain, i)));
        until_s = end_s < until_s ? end_s : until_s;
    }
    return until_s;
}

/* The Unix time at which the first of the current revocation lists expires. */
static int64_t judge_lists_until(X509_STORE *store, int64_t now_s)
{
    int64_t until_s = INT64_MAX;
    STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(store);
    for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
        X509_CRL *list = X509_OBJECT_get0_X509_CRL(sk_X509_OBJECT_value(objects, i));
        const ASN1_TIME *end = list != NULL ? X509_CRL_get0_nextUpdate(list) : NULL;
        int64_t end_s = end != NULL ? judge_seconds(end) : INT64_MAX;
        if (end_s >= now_s && end_s < until_s)
            until_s = end_s;
    }
    return until_s;
}

static enum tls_client_reason judge_chain(struct tls_client *client,
                                          const struct tls_client_trust *authorities, int64_t now_s)
{
    enum tls_client_reason reason = TLS_CLIENT_OTHER;
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    if (context == NULL ||
        X509_STORE_CTX_init(context, authorities->store, client->leaf, client->above) != 1)
        goto out;
    X509_VERIFY_PARAM *rules = X509_STORE_CTX_get0_param(context);
    X509_VERIFY_PARAM_set_depth(rules, LIMIT_CLIENT_CHAIN);
    X509_VERIFY_PARAM_set_auth_level(rules, STRENGTH_LEVEL);
    X509_VERIFY_PARAM_set_time(rules, (time_t)now_s);
    if (X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_CLIENT) != 1)
        goto out;
    int is_right = X509_verify_cert(context);
    reason = judge_error(X509_STORE_CTX_get_error(context));
    if (reason == TLS_CLIENT_FINE && is_right != 1)
        reason = TLS_CLIENT_OTHER;
    if (reason == TLS_CLIENT_FINE) {
        int64_t lists_s = judge_lists_until(authorities->store, now_s);
        client->until_s = judge_until(X509_STORE_CTX_get0_chain(context));
        client->until_s = lists_s < client->until_s ? lists_s : client->until_s;
    }
    if (reason == TLS_CLIENT_FINE && X509_check_ca(client->leaf) != 0)
        reason = TLS_CLIENT_AUTHORITY;
out:
    X509_STORE_CTX_free(context);
    ERR_clear_error();
    return reason;
}

enum tls_client_reason tls_client_judge(struct tls_client *client,
                                        const struct tls_client_trust *authorities, int64_t now_s)
{
    bool is_over = client->reason == TLS_CLIENT_FINE && now_s > client->until_s;
    if (client->generation != authorities->generation || is_over) {
        client->generation = authorities->generation;
        client->reason = client->own;
        if (client->own != TLS_CLIENT_OTHER) /* else it is malformed, whatever its chain is */
            client->reason = judge_chain(client, authorities, now_s);
        if (client->reason == TLS_CLIENT_FINE)
            client->reason = client->own;
    }
    return client->reason;
}
