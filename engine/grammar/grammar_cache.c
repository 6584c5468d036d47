#include "engine/grammar/grammar_cache.h"

#include <pthread.h>
#include <string.h>

#include "config/base/hash.h"
#include "config/base/limits_grammar.h"
#include "config/base/mem.h"

enum { BUCKETS = 4096, DOMAIN_BUCKETS = 1024 };

struct entry {
    struct entry *next_same; /* of its bucket */
    struct entry *newer;     /* of its domain, by last use */
    struct entry *older;
    struct domain *domain;
    struct grammar *grammar;
    size_t bytes; /* of source and grammar, when it was last looked at */
    uint64_t hash;
    uint32_t kind;
    uint32_t options;
    size_t length;
    char source[];
};

struct domain {
    struct domain *next_same; /* of its bucket */
    struct domain *next;      /* of all */
    struct domain *previous;
    struct entry *newest;
    struct entry *oldest;
    size_t bytes;
    uint32_t count;
    struct grammar_cache_domain name;
};

struct grammar_cache {
    pthread_mutex_t lock;
    size_t limit_bytes;
    struct grammar_cache_counts counts;
    struct domain *domains;
    struct entry *buckets[BUCKETS];
    struct domain *domain_buckets[DOMAIN_BUCKETS];
};

/* What is looked for. */
struct key {
    struct grammar_cache_domain domain;
    uint32_t kind;
    uint32_t options;
    struct slice source;
    uint64_t hash;
};

enum status grammar_cache_new(size_t limit_bytes, struct grammar_cache **out)
{
    *out = NULL;
    struct grammar_cache *cache = mem_zalloc(1, sizeof *cache);
    if (cache == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the cache of grammars");
    ASSERT(pthread_mutex_init(&cache->lock, NULL) == 0);
    cache->limit_bytes = limit_bytes;
    *out = cache;
    return STATUS_OK;
}

static struct key make_key(struct grammar_cache_domain domain, uint32_t kind, uint32_t options,
                           struct slice source)
{
    const struct hash_key *secret = hash_process_key();
    uint64_t of_domain = hash_bytes(secret, domain.bytes, sizeof domain.bytes);
    uint64_t of_source = hash_bytes(secret, source.bytes, source.length);
    uint64_t mixed = hash_mix64(of_domain ^ hash_mix64((uint64_t)kind << 32 | options));
    return (struct key){domain, kind, options, source, hash_mix64(mixed ^ of_source)};
}

static struct domain **domain_bucket(struct grammar_cache *cache,
                                     const struct grammar_cache_domain *name)
{
    uint64_t hash = hash_bytes(hash_process_key(), name->bytes, sizeof name->bytes);
    return &cache->domain_buckets[hash % DOMAIN_BUCKETS];
}

static struct domain *find_domain(struct grammar_cache *cache,
                                  const struct grammar_cache_domain *name)
{
    struct domain *domain = *domain_bucket(cache, name);
    while (domain != NULL && memcmp(&domain->name, name, sizeof *name) != 0)
        domain = domain->next_same;
    return domain;
}

static struct entry *find_entry(struct grammar_cache *cache, const struct key *key)
{
    struct entry *entry = cache->buckets[key->hash % BUCKETS];
    while (entry != NULL &&
           (entry->hash != key->hash || entry->kind != key->kind ||
            entry->options != key->options ||
            memcmp(&entry->domain->name, &key->domain, sizeof key->domain) != 0 ||
            !slice_equals((struct slice){entry->source, entry->length}, key->source)))
        entry = entry->next_same;
    return entry;
}

/* --- order of use --- */

static void link_newest(struct entry *entry)
{
    struct domain *domain = entry->domain;
    entry->newer = NULL;
    entry->older = domain->newest;
    *(domain->newest != NULL ? &domain->newest->newer : &domain->oldest) = entry;
    domain->newest = entry;
}

static void unlink_use(struct entry *entry)
{
    struct domain *domain = entry->domain;
    *(entry->newer != NULL ? &entry->newer->older : &domain->newest) = entry->older;
    *(entry->older != NULL ? &entry->older->newer : &domain->oldest) = entry->newer;
}

/* --- bytes --- */

static void set_bytes(struct grammar_cache *cache, struct entry *entry, size_t bytes)
{
    entry->domain->bytes += bytes - entry->bytes;
    cache->counts.bytes += bytes - entry->bytes;
    entry->bytes = bytes;
}

static size_t bytes_of(const struct grammar *grammar, size_t length)
{
    return sizeof(struct entry) + length + grammar_bytes(grammar);
}

/* A grammar grows while it is used: its lexer learns states, and masks are kept. */
static void look_at_bytes(struct grammar_cache *cache)
{
    for (struct domain *domain = cache->domains; domain != NULL; domain = domain->next)
        for (struct entry *entry = domain->newest; entry != NULL; entry = entry->older)
            set_bytes(cache, entry, bytes_of(entry->grammar, entry->length));
}

static void remove_domain(struct grammar_cache *cache, struct domain *domain)
{
    struct domain **link = domain_bucket(cache, &domain->name);
    while (*link != domain)
        link = &(*link)->next_same;
    *link = domain->next_same;
    *(domain->previous != NULL ? &domain->previous->next : &cache->domains) = domain->next;
    if (domain->next != NULL)
        domain->next->previous = domain->previous;
    cache->counts.domains--;
    mem_free(domain);
}

/* Removes an entry, and its domain with the last one. */
static void remove_entry(struct grammar_cache *cache, struct entry *entry)
{
    struct domain *domain = entry->domain;
    struct entry **link = &cache->buckets[entry->hash % BUCKETS];
    while (*link != entry)
        link = &(*link)->next_same;
    *link = entry->next_same;
    unlink_use(entry);
    set_bytes(cache, entry, 0);
    domain->count--;
    cache->counts.grammars--;
    grammar_drop(entry->grammar);
    mem_free(entry);
    if (domain->count == 0)
        remove_domain(cache, domain);
}

static struct domain *largest_domain(const struct grammar_cache *cache)
{
    struct domain *largest = cache->domains;
    for (struct domain *domain = cache->domains; domain != NULL; domain = domain->next)
        if (domain->bytes > largest->bytes)
            largest = domain;
    return largest;
}

static bool is_over(const struct domain *domain)
{
    return domain->bytes > LIMIT_GRAMMAR_DOMAIN_BYTES || domain->count > LIMIT_GRAMMAR_DOMAIN_COUNT;
}

/* Removes the least recently used entries of the domain that is over its share, then those of the
 * largest domain. `added` is the entry that made it necessary, and goes like any other. */
static void make_room(struct grammar_cache *cache, struct domain *added)
{
    look_at_bytes(cache);
    while (is_over(added)) {
        bool is_last = added->count == 1;
        remove_entry(cache, added->oldest);
        cache->counts.evicted++;
        if (is_last)
            break;
    }
    while (cache->counts.bytes > cache->limit_bytes) {
        remove_entry(cache, largest_domain(cache)->oldest);
        cache->counts.evicted++;
    }
}

/* --- front door --- */

struct grammar *grammar_cache_find(struct grammar_cache *cache, struct grammar_cache_domain domain,
                                   uint32_t kind, uint32_t options, struct slice source)
{
    struct key key = make_key(domain, kind, options, source);
    struct grammar *grammar = NULL;
    pthread_mutex_lock(&cache->lock);
    struct entry *entry = find_entry(cache, &key);
    if (entry != NULL && grammar_is_full(entry->grammar)) {
        remove_entry(cache, entry);
        entry = NULL;
    }
    if (entry != NULL) {
        unlink_use(entry);
        link_newest(entry);
        grammar = grammar_hold(entry->grammar);
        cache->counts.hits++;
    } else {
        cache->counts.misses++;
    }
    pthread_mutex_unlock(&cache->lock);
    return grammar;
}

static struct domain *add_domain(struct grammar_cache *cache,
                                 const struct grammar_cache_domain *name)
{
    struct domain *domain = mem_zalloc(1, sizeof *domain);
    if (domain == NULL)
        return NULL;
    struct domain **bucket = domain_bucket(cache, name);
    domain->name = *name;
    domain->next_same = *bucket;
    *bucket = domain;
    domain->next = cache->domains;
    if (cache->domains != NULL)
        cache->domains->previous = domain;
    cache->domains = domain;
    cache->counts.domains++;
    return domain;
}

static struct entry *make_entry(const struct key *key, struct grammar *grammar)
{
    struct entry *entry = mem_alloc(sizeof *entry + key->source.length);
    if (entry == NULL)
        return NULL;
    *entry = (struct entry){.grammar = grammar_hold(grammar),
                            .hash = key->hash,
                            .kind = key->kind,
                            .options = key->options,
                            .length = key->source.length};
    if (key->source.length != 0)
        memcpy(entry->source, key->source.bytes, key->source.length);
    return entry;
}

/* Puts the entry into its domain, which is made if need be. False without memory. */
static bool add_entry(struct grammar_cache *cache, const struct key *key, struct entry *entry)
{
    entry->domain = find_domain(cache, &key->domain);
    if (entry->domain == NULL)
        entry->domain = add_domain(cache, &key->domain);
    if (entry->domain == NULL)
        return false;
    struct entry **bucket = &cache->buckets[key->hash % BUCKETS];
    entry->next_same = *bucket;
    *bucket = entry;
    link_newest(entry);
    entry->domain->count++;
    cache->counts.grammars++;
    make_room(cache, entry->domain);
    return true;
}

void grammar_cache_keep(struct grammar_cache *cache, struct grammar_cache_domain domain,
                        uint32_t kind, uint32_t options, struct slice source,
                        struct grammar *grammar)
{
    size_t bytes = bytes_of(grammar, source.length);
    if (bytes > cache->limit_bytes || bytes > LIMIT_GRAMMAR_DOMAIN_BYTES)
        return;
    struct key key = make_key(domain, kind, options, source);
    struct entry *entry = make_entry(&key, grammar);
    if (entry == NULL)
        return;
    pthread_mutex_lock(&cache->lock);
    bool is_added = find_entry(cache, &key) == NULL && add_entry(cache, &key, entry);
    pthread_mutex_unlock(&cache->lock);
    if (!is_added) {
        grammar_drop(entry->grammar);
        mem_free(entry);
    }
}

void grammar_cache_count(struct grammar_cache *cache, struct grammar_cache_counts *out)
{
    pthread_mutex_lock(&cache->lock);
    *out = cache->counts;
    pthread_mutex_unlock(&cache->lock);
}

void grammar_cache_free(struct grammar_cache *cache)
{
    if (cache == NULL)
        return;
    while (cache->domains != NULL)
        remove_entry(cache, cache->domains->oldest);
    pthread_mutex_destroy(&cache->lock);
    mem_free(cache);
}
