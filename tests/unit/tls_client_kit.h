/* tls_client_kit: authorities, certificates of clients and revocation lists, as a test wants them.
 *
 * Owns:     the folder that its files are in.
 * Thread:   the test's thread.
 * Not here: assertions about the product.
 */
#pragma once

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "gateway/http/tls_client.h"
#include "tests/unit/base_kit.h"

struct kit_cert {
    X509 *x509;
    EVP_PKEY *key;
};

struct kit_spec {
    const struct kit_cert *issuer; /* NULL: itself */
    const char *name;
    const char *names;       /* "URI:urn:x,DNS:a"; NULL: none */
    GENERAL_NAMES *raw;      /* the same, for names that OpenSSL's words cannot say */
    const char *constraints; /* NULL: "CA:FALSE" */
    const char *purpose;     /* extended key usage; NULL: clientAuth; "": none */
    int rsa_bits;            /* 0: P-256 */
    bool is_sha1;
    int from_s; /* from now; 0: an hour ago */
    int until_s;
};

static inline void kit_cert_extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static inline struct kit_cert kit_cert_make(const struct kit_spec *spec)
{
    static int serial = 1000;
    struct kit_cert out = {X509_new(), NULL};
    out.key = spec->rsa_bits != 0 ? EVP_RSA_gen((unsigned)spec->rsa_bits) : EVP_EC_gen("P-256");
    X509 *issuer = spec->issuer != NULL ? spec->issuer->x509 : out.x509;
    assert_non_null(out.key);
    assert_int_equal(X509_set_version(out.x509, X509_VERSION_3), 1);
    ASN1_INTEGER_set(X509_get_serialNumber(out.x509), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(out.x509), spec->from_s != 0 ? spec->from_s : -3600);
    X509_gmtime_adj(X509_getm_notAfter(out.x509), spec->until_s != 0 ? spec->until_s : 864000);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(out.x509), "CN", MBSTRING_UTF8,
                               (const unsigned char *)spec->name, -1, -1, 0);
    X509_set_issuer_name(out.x509, X509_get_subject_name(issuer));
    X509_set_pubkey(out.x509, out.key);
    kit_cert_extend(out.x509, issuer, NID_basic_constraints,
                    spec->constraints != NULL ? spec->constraints : "CA:FALSE");
    if (spec->constraints == NULL && (spec->purpose == NULL || spec->purpose[0] != '\0'))
        kit_cert_extend(out.x509, issuer, NID_ext_key_usage,
                        spec->purpose != NULL ? spec->purpose : "clientAuth");
    if (spec->names != NULL)
        kit_cert_extend(out.x509, issuer, NID_subject_alt_name, spec->names);
    if (spec->raw != NULL)
        X509_add1_ext_i2d(out.x509, NID_subject_alt_name, spec->raw, 0, X509V3_ADD_APPEND);
    assert_true(X509_sign(out.x509, spec->issuer != NULL ? spec->issuer->key : out.key,
                          spec->is_sha1 ? EVP_sha1() : EVP_sha256()) > 0);
    return out;
}

static inline struct kit_cert kit_cert_root(const char *name)
{
    return kit_cert_make(&(struct kit_spec){.name = name, .constraints = "critical,CA:TRUE"});
}

static inline void kit_cert_free(struct kit_cert *cert)
{
    X509_free(cert->x509);
    EVP_PKEY_free(cert->key);
    *cert = (struct kit_cert){NULL, NULL};
}

static inline void kit_cert_write(const char *path, const struct kit_cert *certs, size_t count)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(PEM_write_X509(file, certs[i].x509), 1);
    fclose(file);
}

/* `revoked` NULL: an empty list. `is_old`: its time is over. */
static inline void kit_cert_write_list(const char *path, const struct kit_cert *issuer,
                                       const struct kit_cert *revoked, bool is_old)
{
    X509_CRL *list = X509_CRL_new();
    ASN1_TIME *time = X509_gmtime_adj(NULL, -7200);
    X509_CRL_set_version(list, 1);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer->x509));
    X509_CRL_set1_lastUpdate(list, time);
    X509_gmtime_adj(time, is_old ? -3600 : 864000);
    X509_CRL_set1_nextUpdate(list, time);
    if (revoked != NULL) {
        X509_REVOKED *row = X509_REVOKED_new();
        X509_gmtime_adj(time, -3600);
        X509_REVOKED_set_serialNumber(row, X509_get_serialNumber(revoked->x509));
        X509_REVOKED_set_revocationDate(row, time);
        X509_CRL_add0_revoked(list, row);
    }
    X509_CRL_sort(list);
    assert_true(X509_CRL_sign(list, issuer->key, EVP_sha256()) > 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509_CRL(file, list), 1);
    fclose(file);
    ASN1_TIME_free(time);
    X509_CRL_free(list);
}

/* A name of any bytes. */
static inline void kit_cert_name(GENERAL_NAMES **names, int type, const void *bytes, int length)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    if (*names == NULL)
        *names = GENERAL_NAMES_new();
    ASN1_STRING_set(text, bytes, length);
    GENERAL_NAME_set0_value(name, type, text);
    sk_GENERAL_NAME_push(*names, name);
}
