/* tls_make_self_signed: makes a local authority and a server certificate, in files. */
#include "gateway/http/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/slice.h"

enum { PATH_BYTES = 1024, DAYS_VALID = 820 }; /* Apple's clients accept 825 */

/* Adds one extension; `issuer` signs. */
static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool is_added = extension != NULL && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return is_added;
}

/* A certificate without extensions and signature; NULL on failure. */
static X509 *make_certificate(EVP_PKEY *key, const char *common_name, X509 *issuer)
{
    X509 *cert = X509_new();
    unsigned char serial[16];
    BIGNUM *number = NULL;
    if (cert == NULL || RAND_bytes(serial, sizeof(serial)) != 1)
        goto fail;
    serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40); /* positive, full length */
    number = BN_bin2bn(serial, sizeof(serial), NULL);
    if (number == NULL || BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) == NULL)
        goto fail;
    X509_NAME *name = X509_get_subject_name(cert);
    if (X509_set_version(cert, X509_VERSION_3) != 1 ||
        X509_gmtime_adj(X509_getm_notBefore(cert), -300) == NULL || /* clocks differ a little */
        X509_time_adj_ex(X509_getm_notAfter(cert), DAYS_VALID, 0, NULL) == NULL ||
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name,
                                   -1, -1, 0) != 1 ||
        X509_set_issuer_name(cert, issuer != NULL ? X509_get_subject_name(issuer) : name) != 1 ||
        X509_set_pubkey(cert, key) != 1)
        goto fail;
    BN_free(number);
    return cert;
fail:
    BN_free(number);
    X509_free(cert);
    return NULL;
}

static X509 *make_authority(EVP_PKEY *key)
{
    X509 *cert = make_certificate(key, "Banyan local authority", NULL);
    if (cert != NULL &&
        add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
        X509_sign(cert, key, EVP_sha256()) > 0)
        return cert;
    X509_free(cert);
    return NULL;
}

/* The host's name goes into the certificate only if it looks like one. */
static bool is_host_name(const char *name)
{
    if (name[0] == '\0' || strcmp(name, "localhost") == 0)
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") ==
           strlen(name);
}

static X509 *make_server(EVP_PKEY *key, X509 *authority, EVP_PKEY *authority_key)
{
    char host[256] = "";
    if (gethostname(host, sizeof(host) - 1) != 0 || !is_host_name(host))
        host[0] = '\0';
    char names[512];
    snprintf(names, sizeof(names), "DNS:localhost,IP:127.0.0.1,IP:::1%s%s",
             host[0] != '\0' ? ",DNS:" : "", host);
    X509 *cert = make_certificate(key, "localhost", authority);
    if (cert != NULL &&
        add_extension(cert, authority, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(cert, authority, NID_key_usage, "critical,digitalSignature") &&
        add_extension(cert, authority, NID_ext_key_usage, "serverAuth") &&
        add_extension(cert, authority, NID_subject_key_identifier, "hash") &&
        add_extension(cert, authority, NID_authority_key_identifier, "keyid:always") &&
        add_extension(cert, authority, NID_subject_alt_name, names) &&
        X509_sign(cert, authority_key, EVP_sha256()) > 0)
        return cert;
    X509_free(cert);
    return NULL;
}

/* Writes a new file and renames it: a reader sees the old file or the whole new one. */
static enum status write_file(const char *path, struct slice text, mode_t mode)
{
    char beside[PATH_BYTES + 8];
    snprintf(beside, sizeof(beside), "%s.new", path);
    (void)unlink(beside);
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        FAIL(STATUS_IO, "cannot write %s (%s)", path, strerror(errno));
    bool is_written = write(fd, text.bytes, text.length) == (ssize_t)text.length &&
                      fchmod(fd, mode) == 0 && fsync(fd) == 0;
    close(fd);
    if (!is_written || rename(beside, path) != 0) {
        int cause = errno;
        (void)unlink(beside);
        FAIL(STATUS_IO, "cannot write %s (%s)", path, strerror(cause));
    }
    return STATUS_OK;
}

/* Writes `cert`, or `key` when `cert` is NULL. */
static enum status write_pem(const char *directory, const char *file, X509 *cert, EVP_PKEY *key)
{
    char path[PATH_BYTES];
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, file) >= sizeof(path))
        FAIL(STATUS_INVALID, "the directory's name is too long");
    BIO *bio = BIO_new(BIO_s_mem());
    if (bio == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a certificate");
    int done = cert != NULL ? PEM_write_bio_X509(bio, cert)
                            : PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
    char *bytes = NULL;
    long length = BIO_get_mem_data(bio, &bytes);
    enum status status = STATUS_OK;
    if (done != 1 || length <= 0)
        FAIL_OUT(STATUS_NO_MEMORY, "cannot encode %s", file);
    struct slice text = {bytes, (size_t)length};
    TRY_OUT(write_file(path, text, cert != NULL ? 0644 : 0600));
out:
    BIO_free(bio);
    return status;
}

static X509 *read_certificate(const char *directory, const char *file)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s", directory, file);
    BIO *bio = BIO_new_file(path, "r");
    X509 *cert = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    return cert;
}

static EVP_PKEY *read_key(const char *directory, const char *file)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s", directory, file);
    BIO *bio = BIO_new_file(path, "r");
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    return key;
}

static bool is_valid_tomorrow(const X509 *cert)
{
    time_t tomorrow = time(NULL) + 24 * 3600;
    return X509_cmp_time(X509_get0_notAfter(cert), &tomorrow) > 0;
}

/* All four files are there, match each other and are valid for another day. */
static bool is_usable(const char *directory)
{
    X509 *authority = read_certificate(directory, "ca.crt");
    X509 *server = read_certificate(directory, "server.crt");
    EVP_PKEY *authority_key = read_key(directory, "ca.key");
    EVP_PKEY *key = read_key(directory, "server.key");
    bool is_good = false;
    if (authority != NULL && server != NULL && key != NULL && authority_key != NULL)
        is_good = is_valid_tomorrow(authority) && is_valid_tomorrow(server) &&
                  X509_check_private_key(server, key) == 1 &&
                  X509_check_private_key(authority, authority_key) == 1 &&
                  X509_verify(server, X509_get0_pubkey(authority)) == 1;
    X509_free(authority);
    X509_free(server);
    EVP_PKEY_free(authority_key);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return is_good;
}

enum status tls_make_self_signed(const char *directory)
{
    if (strlen(directory) + sizeof("/server.crt") > PATH_BYTES)
        FAIL(STATUS_INVALID, "the directory's name is too long");
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        FAIL(STATUS_IO, "cannot make the directory %s (%s)", directory, strerror(errno));
    if (is_usable(directory))
        return STATUS_OK;
    EVP_PKEY *authority_key = EVP_EC_gen("P-256");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *authority = authority_key != NULL ? make_authority(authority_key) : NULL;
    X509 *server =
        authority != NULL && key != NULL ? make_server(key, authority, authority_key) : NULL;
    enum status status = STATUS_OK;
    if (server == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "cannot make a certificate");
    TRY_OUT(write_pem(directory, "ca.key", NULL, authority_key));
    TRY_OUT(write_pem(directory, "ca.crt", authority, NULL));
    TRY_OUT(write_pem(directory, "server.key", NULL, key));
    TRY_OUT(write_pem(directory, "server.crt", server, NULL));
out:
    X509_free(server);
    X509_free(authority);
    EVP_PKEY_free(key);
    EVP_PKEY_free(authority_key);
    ERR_clear_error();
    return status;
}
