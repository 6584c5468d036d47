#include "engine/fleet_route.h"

#include <string.h>

#include "config/base/hash.h"
#include "config/base/mem.h"

_Static_assert(LIMIT_ENGINES <= 32, "a uint32_t has a bit for each engine");

enum status fleet_route_init(struct fleet_route *route, uint32_t engines)
{
    *route = (struct fleet_route){.engines = engines};
    route->places = mem_zalloc(FLEET_ROUTE_PLACES, sizeof *route->places);
    if (route->places == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the routing table of %u engines", engines);
    return STATUS_OK;
}

void fleet_route_deinit(struct fleet_route *route)
{
    mem_free(route->places);
    *route = (struct fleet_route){0};
}

/* --- keys --- */

struct piece {
    struct fleet_route_keys *out;
    uint64_t sum;  /* hash of all pieces before this one */
    uint32_t done; /* whole pieces; there is a key after 1, 2, 4, … of them */
    uint32_t filled;
    uint8_t bytes[FLEET_ROUTE_PIECE];
};

static void piece_end(struct piece *piece)
{
    const struct hash_key *process = hash_process_key();
    const struct hash_key key = {process->k0 ^ piece->sum, process->k1};
    piece->sum = hash_bytes(&key, piece->bytes, FLEET_ROUTE_PIECE);
    piece->filled = 0;
    piece->done++;
    if ((piece->done & (piece->done - 1)) == 0 && piece->out->count < FLEET_ROUTE_KEYS)
        piece->out->keys[piece->out->count++] = piece->sum | 1; /* 0 marks an empty entry */
}

static void piece_add(struct piece *piece, const void *bytes, size_t length)
{
    const uint8_t *from = bytes;
    while (length > 0 && piece->out->count < FLEET_ROUTE_KEYS) {
        size_t part = FLEET_ROUTE_PIECE - piece->filled;
        part = part < length ? part : length;
        memcpy(piece->bytes + piece->filled, from, part);
        piece->filled += (uint32_t)part;
        from += part;
        length -= part;
        if (piece->filled == FLEET_ROUTE_PIECE)
            piece_end(piece);
    }
}

/* The length goes in too, so that no two lists of texts give the same bytes. */
static void piece_add_text(struct piece *piece, struct slice text)
{
    const uint64_t length = text.length;
    piece_add(piece, &length, sizeof length);
    piece_add(piece, text.bytes, text.length);
}

void fleet_route_keys(const struct engine_request *request, struct fleet_route_keys *out)
{
    static const struct engine_domain none;
    struct piece piece = {.out = out};
    out->count = 0;
    if (memcmp(&request->domain, &none, sizeof none) == 0)
        return;
    piece.sum = hash_bytes(hash_process_key(), &request->domain, sizeof request->domain);
    switch (request->prompt_kind) {
    case ENGINE_PROMPT_TEXT:
        piece_add(&piece, request->text.bytes, request->text.length);
        break;
    case ENGINE_PROMPT_TOKENS:
        piece_add(&piece, request->tokens, request->token_count * sizeof *request->tokens);
        break;
    case ENGINE_PROMPT_CHAT:
        for (size_t i = 0; i < request->message_count; i++) {
            piece_add_text(&piece, request->messages[i].role);
            piece_add_text(&piece, request->messages[i].content);
        }
        break;
    }
}

/* --- the table --- */

static struct fleet_route_place *place_set(struct fleet_route *route, uint64_t key)
{
    return route->places + (key >> 32) % (FLEET_ROUTE_PLACES / FLEET_ROUTE_SET) * FLEET_ROUTE_SET;
}

static uint32_t place_engines(struct fleet_route *route, uint64_t key)
{
    struct fleet_route_place *set = place_set(route, key);
    for (uint32_t i = 0; i < FLEET_ROUTE_SET; i++)
        if (set[i].key == key) {
            set[i].used = route->turn;
            return set[i].engines;
        }
    return 0;
}

/* Takes the key's own entry, else an empty one, else the one that was used longest ago. */
static void place_note(struct fleet_route *route, uint64_t key, uint32_t engine)
{
    struct fleet_route_place *set = place_set(route, key);
    struct fleet_route_place *place = &set[0];
    for (uint32_t i = 0; i < FLEET_ROUTE_SET && place->key != key; i++)
        if (set[i].key == key || route->turn - set[i].used > route->turn - place->used ||
            set[i].key == 0)
            place = &set[i];
    if (place->key != key)
        *place = (struct fleet_route_place){.key = key};
    place->engines |= UINT32_C(1) << engine;
    place->used = route->turn;
}

/* --- the choice --- */

/* The engine with the fewest requests among `among`; of equal ones the first from engine turn %
 * engines on. `engines` when `among` is empty. */
static uint32_t choose_least(const struct fleet_route *route, const uint32_t *loads, uint32_t among)
{
    uint32_t best = route->engines;
    for (uint32_t i = 0; i < route->engines; i++) {
        const uint32_t engine = (route->turn + i) % route->engines;
        if ((among >> engine & 1) != 0 && (best == route->engines || loads[engine] < loads[best]))
            best = engine;
    }
    return best;
}

/* The engines that do not have many more requests than the least loaded one. */
static uint32_t choose_able(const struct fleet_route *route, const uint32_t *loads)
{
    const uint32_t least = loads[choose_least(route, loads, UINT32_MAX)];
    uint32_t able = 0;
    for (uint32_t i = 0; i < route->engines; i++)
        if (loads[i] <= least + least / 2 + FLEET_ROUTE_SLACK)
            able |= UINT32_C(1) << i;
    return able;
}

/* The engine with the highest random weight for the key. */
static uint32_t choose_home(const struct fleet_route *route, uint64_t key, uint32_t able)
{
    uint32_t best = route->engines;
    uint64_t most = 0;
    for (uint32_t i = 0; i < route->engines; i++) {
        const uint64_t weight = hash_mix64(key + i);
        if ((able >> i & 1) != 0 && (best == route->engines || weight > most)) {
            best = i;
            most = weight;
        }
    }
    return best;
}

uint32_t fleet_route_choose(struct fleet_route *route, const struct fleet_route_keys *keys,
                            const uint32_t *loads)
{
    const uint32_t able = choose_able(route, loads);
    route->turn++;
    for (uint32_t i = keys->count; i-- > 0;) {
        const uint32_t among = place_engines(route, keys->keys[i]) & able;
        if (among != 0)
            return choose_least(route, loads, among);
    }
    return keys->count > 0 ? choose_home(route, keys->keys[0], able)
                           : choose_least(route, loads, able);
}

void fleet_route_note(struct fleet_route *route, const struct fleet_route_keys *keys,
                      uint32_t engine)
{
    for (uint32_t i = 0; i < keys->count; i++)
        place_note(route, keys->keys[i], engine);
}
