/* redis_url: parses the option `redis`, the address of Redis.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass over the text.
 * Not here: connecting, resolving names (redis_link); passwords, which no URL may hold.
 *
 *   redis://[USER@]HOST[:PORT][/DB]     port 6379, database 0 unless given; [::1] for IPv6
 *   unix:///PATH[?db=DB]
 */
#pragma once

#include "config/base/slice.h"

enum { REDIS_URL_HOST_BYTES = 256, REDIS_URL_USER_BYTES = 128 };

struct redis_url {
    bool is_unix;
    char host[REDIS_URL_HOST_BYTES]; /* a name or an address; the path of a Unix socket */
    char user[REDIS_URL_USER_BYTES]; /* "": Redis's default user */
    uint16_t port;
    int32_t database;
};

/* INVALID (param "redis") with a message that says what to write instead. The message never repeats
 * the text, which may hold a password by mistake. */
enum status redis_url_parse(struct redis_url *out, const char *text);
