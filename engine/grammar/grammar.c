#include "engine/grammar/grammar.h"

#include <string.h>

#include "config/base/hash.h"
#include "config/base/limits_grammar.h"
#include "config/base/mem.h"
#include "engine/grammar/grammar_form.h"

enum { NONE = UINT32_MAX, FIRST_CAPACITY = 64 };

struct rule {
    uint32_t first; /* alternatives, as a list in the order in which they were added */
    uint32_t last;
    bool is_counted; /* an alternative looks at its count, or hands it on */
};

struct alternative {
    uint32_t next;
    uint32_t rule;
    uint32_t first_use;
    uint32_t use_count;
    struct grammar_when when;
};

struct lexeme {
    regex_node_id regex;
    enum grammar_end end;
};

/* An array that doubles. */
struct table {
    void *items;
    uint32_t count;
    uint32_t capacity;
};

struct grammar_builder {
    struct grammar_fuel *fuel;
    struct regex_pool *regexes; /* NULL once a grammar has it */
    enum status status;
    struct table rules;        /* struct rule */
    struct table alternatives; /* struct alternative */
    struct table uses;         /* struct grammar_use */
    struct table lexemes;      /* struct lexeme */
    uint32_t *buckets;     /* lexemes by regex and end; NONE is free; twice `lexemes` and more */
    uint32_t bucket_count; /* a power of two */
    uint32_t empty;        /* the lexeme rule of the empty text, made once, or 0 */
};

static void latch(struct grammar_builder *builder, enum status status)
{
    if (builder->status == STATUS_OK)
        builder->status = status;
}

static bool grow(struct table *table, size_t size, uint32_t more, uint32_t limit)
{
    if (more > limit || table->count > limit - more)
        return false;
    if (table->count + more <= table->capacity)
        return true;
    uint32_t capacity = table->capacity != 0 ? table->capacity : FIRST_CAPACITY;
    while (capacity < table->count + more)
        capacity *= 2;
    void *items = mem_realloc(table->items, capacity * size);
    if (items == NULL)
        return false;
    table->items = items;
    table->capacity = capacity;
    return true;
}

/* Room for `more` items of a table. A failure is latched with a sentence that says which. */
static bool make_room(struct grammar_builder *builder, struct table *table, size_t size,
                      uint32_t more, uint32_t limit, const char *what)
{
    if (builder->status != STATUS_OK)
        return false;
    if (grow(table, size, more, limit))
        return true;
    if (more > limit || table->count > limit - more)
        latch(builder, status_fail(STATUS_LIMIT, __FILE__, __LINE__, NULL,
                                   "the grammar has more than %u %s", limit, what));
    else
        latch(builder, status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL,
                                   "no memory for a grammar's %s", what));
    return false;
}

static bool spend(struct grammar_builder *builder, uint32_t steps)
{
    if (builder->status == STATUS_OK)
        latch(builder, grammar_fuel_spend(builder->fuel, steps));
    return builder->status == STATUS_OK;
}

static struct rule *rule_at(const struct grammar_builder *builder, uint32_t index)
{
    return (struct rule *)builder->rules.items + index;
}

static struct alternative *alternative_at(const struct grammar_builder *builder, uint32_t index)
{
    return (struct alternative *)builder->alternatives.items + index;
}

static struct grammar_use *use_at(const struct grammar_builder *builder, uint32_t index)
{
    return (struct grammar_use *)builder->uses.items + index;
}

static struct lexeme *lexeme_at(const struct grammar_builder *builder, uint32_t index)
{
    return (struct lexeme *)builder->lexemes.items + index;
}

enum status grammar_builder_new(struct grammar_fuel *fuel, struct grammar_builder **out)
{
    *out = NULL;
    struct grammar_builder *builder = mem_zalloc(1, sizeof *builder);
    if (builder == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a grammar");
    builder->fuel = fuel;
    enum status status = regex_pool_new(fuel, &builder->regexes);
    if (status != STATUS_OK) {
        grammar_builder_free(builder);
        return status;
    }
    *out = builder;
    return STATUS_OK;
}

void grammar_builder_free(struct grammar_builder *builder)
{
    if (builder == NULL)
        return;
    regex_pool_free(builder->regexes);
    mem_free(builder->rules.items);
    mem_free(builder->alternatives.items);
    mem_free(builder->uses.items);
    mem_free(builder->lexemes.items);
    mem_free(builder->buckets);
    mem_free(builder);
}

enum status grammar_builder_status(struct grammar_builder *builder)
{
    if (builder->status == STATUS_OK && builder->regexes != NULL)
        latch(builder, regex_pool_status(builder->regexes));
    return builder->status;
}

struct regex_pool *grammar_builder_regexes(struct grammar_builder *builder)
{
    return builder->regexes;
}

struct grammar_fuel *grammar_builder_fuel(struct grammar_builder *builder)
{
    return builder->fuel;
}

/* --- symbols --- */

static uint64_t lexeme_hash(regex_node_id regex, enum grammar_end end)
{
    return hash_mix64((uint64_t)regex << 2 | (uint64_t)end);
}

static void put_bucket(struct grammar_builder *builder, uint32_t index)
{
    const struct lexeme *lexeme = lexeme_at(builder, index);
    uint64_t at = lexeme_hash(lexeme->regex, lexeme->end);
    while (builder->buckets[at & (builder->bucket_count - 1)] != NONE)
        at++;
    builder->buckets[at & (builder->bucket_count - 1)] = index;
}

/* Keeps at least half of the buckets free. */
static bool make_buckets(struct grammar_builder *builder)
{
    if (builder->lexemes.count * 2 < builder->bucket_count)
        return true;
    uint32_t count = builder->bucket_count != 0 ? builder->bucket_count * 2 : FIRST_CAPACITY;
    uint32_t *buckets = mem_alloc(count * sizeof *buckets);
    if (buckets == NULL) {
        latch(builder, status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL,
                                   "no memory for a grammar's lexemes"));
        return false;
    }
    mem_free(builder->buckets);
    builder->buckets = buckets;
    builder->bucket_count = count;
    memset(buckets, 0xff, count * sizeof *buckets);
    for (uint32_t i = 0; i < builder->lexemes.count; i++)
        put_bucket(builder, i);
    return true;
}

/* The lexeme of a regex that cannot match the empty text. */
static grammar_symbol find_lexeme(struct grammar_builder *builder, regex_node_id regex,
                                  enum grammar_end end)
{
    if (!make_buckets(builder))
        return GRAMMAR_NOTHING;
    for (uint64_t at = lexeme_hash(regex, end);; at++) {
        uint32_t index = builder->buckets[at & (builder->bucket_count - 1)];
        if (index == NONE)
            break;
        if (lexeme_at(builder, index)->regex == regex && lexeme_at(builder, index)->end == end)
            return grammar_symbol_of(GRAMMAR_LEXEME, index);
    }
    if (!make_room(builder, &builder->lexemes, sizeof(struct lexeme), 1, LIMIT_GRAMMAR_LEXEMES,
                   "lexemes"))
        return GRAMMAR_NOTHING;
    uint32_t index = builder->lexemes.count++;
    *lexeme_at(builder, index) = (struct lexeme){regex, end};
    put_bucket(builder, index);
    return grammar_symbol_of(GRAMMAR_LEXEME, index);
}

grammar_symbol grammar_lexeme(struct grammar_builder *builder, regex_node_id regex,
                              enum grammar_end end)
{
    if (grammar_builder_status(builder) != STATUS_OK || !spend(builder, 1) || regex == REGEX_NONE)
        return GRAMMAR_NOTHING;
    if (!regex_is_nullable(builder->regexes, regex))
        return find_lexeme(builder, regex, end);
    regex_node_id some =
        regex_and(builder->regexes, regex, regex_not(builder->regexes, REGEX_EMPTY));
    if (some == REGEX_NONE)
        return grammar_sequence(builder, NULL, 0);
    return grammar_optional(builder, grammar_lexeme(builder, some, end));
}

grammar_symbol grammar_text(struct grammar_builder *builder, struct slice text)
{
    if (text.length == 0)
        return grammar_sequence(builder, NULL, 0);
    return grammar_lexeme(builder, regex_text(builder->regexes, text), GRAMMAR_GREEDY);
}

grammar_symbol grammar_token(struct grammar_builder *builder, uint32_t token)
{
    ASSERT(token <= GRAMMAR_INDEX_MASK);
    return spend(builder, 1) ? grammar_symbol_of(GRAMMAR_TOKEN, token) : GRAMMAR_NOTHING;
}

grammar_symbol grammar_rule(struct grammar_builder *builder)
{
    if (!spend(builder, 1) ||
        !make_room(builder, &builder->rules, sizeof(struct rule), 1, LIMIT_GRAMMAR_RULES, "rules"))
        return GRAMMAR_NOTHING;
    uint32_t index = builder->rules.count++;
    *rule_at(builder, index) = (struct rule){NONE, NONE, false};
    return grammar_symbol_of(GRAMMAR_RULE, index);
}

/* Links a new alternative without symbols to its rule. NULL after a failure. */
static struct alternative *add_alternative(struct grammar_builder *builder, grammar_symbol rule,
                                           struct grammar_when when, size_t count)
{
    if (builder->status != STATUS_OK || rule == GRAMMAR_NOTHING)
        return NULL;
    ASSERT(grammar_kind_of(rule) == GRAMMAR_RULE);
    if (count > LIMIT_GRAMMAR_SYMBOLS) {
        latch(builder, status_fail(STATUS_LIMIT, __FILE__, __LINE__, NULL,
                                   "the grammar has more than %u symbols", LIMIT_GRAMMAR_SYMBOLS));
        return NULL;
    }
    if (!spend(builder, (uint32_t)count + 1) ||
        !make_room(builder, &builder->alternatives, sizeof(struct alternative), 1,
                   LIMIT_GRAMMAR_SYMBOLS, "alternatives") ||
        !make_room(builder, &builder->uses, sizeof(struct grammar_use), (uint32_t)count,
                   LIMIT_GRAMMAR_SYMBOLS, "symbols"))
        return NULL;
    uint32_t index = builder->alternatives.count++;
    struct rule *of = rule_at(builder, grammar_index_of(rule));
    struct alternative *alternative = alternative_at(builder, index);
    *alternative = (struct alternative){.next = NONE,
                                        .rule = grammar_index_of(rule),
                                        .first_use = builder->uses.count,
                                        .use_count = (uint32_t)count,
                                        .when = when};
    if (of->last == NONE)
        of->first = index;
    else
        alternative_at(builder, of->last)->next = index;
    of->last = index;
    return alternative;
}

void grammar_rule_add(struct grammar_builder *builder, grammar_symbol rule,
                      const grammar_symbol *symbols, size_t count)
{
    if (add_alternative(builder, rule, (struct grammar_when){GRAMMAR_ALWAYS, 0}, count) == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        *use_at(builder, builder->uses.count++) =
            (struct grammar_use){symbols[i], GRAMMAR_PASS_VALUE, 0};
}

void grammar_counted_add(struct grammar_builder *builder, grammar_symbol rule,
                         struct grammar_when when, const struct grammar_use *uses, size_t count)
{
    if (add_alternative(builder, rule, when, count) == NULL)
        return;
    rule_at(builder, grammar_index_of(rule))->is_counted = true;
    for (size_t i = 0; i < count; i++)
        *use_at(builder, builder->uses.count++) = uses[i];
}

grammar_symbol grammar_sequence(struct grammar_builder *builder, const grammar_symbol *symbols,
                                size_t count)
{
    if (count == 1)
        return symbols[0];
    grammar_symbol rule = grammar_rule(builder);
    grammar_rule_add(builder, rule, symbols, count);
    return rule;
}

grammar_symbol grammar_either(struct grammar_builder *builder, const grammar_symbol *symbols,
                              size_t count)
{
    if (count == 1)
        return symbols[0];
    grammar_symbol rule = grammar_rule(builder);
    for (size_t i = 0; i < count; i++)
        grammar_rule_add(builder, rule, &symbols[i], 1);
    return rule;
}

grammar_symbol grammar_optional(struct grammar_builder *builder, grammar_symbol symbol)
{
    grammar_symbol rule = grammar_rule(builder);
    grammar_rule_add(builder, rule, NULL, 0);
    grammar_rule_add(builder, rule, &symbol, 1);
    return rule;
}

/* --- repetition ---
 *
 * E(k) is the symbol 2^k times: E(k) = E(k-1) E(k-1). Exactly n times is the row of E(k) for the
 * bits of n. At most n times, M(n), with h the highest power of two in n:
 *
 *     M(0) = empty      M(n) = E(log h) M(n - h)  |  M(h - 1)
 *
 * Each number of repetitions has one way only, so that the rows of a parse stay short. The calls of
 * M are n without its highest bits, and 2^k - 1: at most two for each bit. */

enum { REPEAT_BITS = 16 };

struct repetition {
    grammar_symbol power[REPEAT_BITS]; /* E */
    grammar_symbol ones[REPEAT_BITS];  /* M(2^k - 1) */
};

static void make_powers(struct grammar_builder *builder, struct repetition *repetition,
                        grammar_symbol symbol, uint32_t greatest)
{
    repetition->power[0] = symbol;
    for (uint32_t k = 1; k < REPEAT_BITS && greatest >> k != 0; k++) {
        grammar_symbol both[2] = {repetition->power[k - 1], repetition->power[k - 1]};
        repetition->power[k] = grammar_sequence(builder, both, 2);
    }
}

static grammar_symbol repeat_exactly(struct grammar_builder *builder,
                                     const struct repetition *repetition, uint32_t count)
{
    grammar_symbol symbols[REPEAT_BITS];
    size_t used = 0;
    for (uint32_t k = REPEAT_BITS; k-- > 0;)
        if (count >> k & 1)
            symbols[used++] = repetition->power[k];
    return grammar_sequence(builder, symbols, used);
}

static grammar_symbol repeat_at_most(struct grammar_builder *builder, struct repetition *repetition,
                                     uint32_t count)
{
    uint32_t high = 31 - (uint32_t)__builtin_clz(count | 1);
    repetition->ones[0] = grammar_sequence(builder, NULL, 0);
    for (uint32_t k = 1; k <= high; k++) { /* M(2^k - 1) = E(k-1) M(2^(k-1) - 1) | the same M */
        grammar_symbol less = repetition->ones[k - 1];
        grammar_symbol more[2] = {repetition->power[k - 1], less};
        repetition->ones[k] = grammar_rule(builder);
        grammar_rule_add(builder, repetition->ones[k], more, 2);
        grammar_rule_add(builder, repetition->ones[k], &less, 1);
    }
    grammar_symbol rest = repetition->ones[0];
    for (uint32_t k = 0; k <= high && count != 0; k++) { /* from the lowest bit of `count` up */
        if ((count >> k & 1) == 0)
            continue;
        grammar_symbol more[2] = {repetition->power[k], rest};
        rest = grammar_rule(builder);
        grammar_rule_add(builder, rest, more, 2);
        grammar_rule_add(builder, rest, &repetition->ones[k], 1);
    }
    return rest;
}

grammar_symbol grammar_repeat(struct grammar_builder *builder, grammar_symbol symbol, uint32_t min,
                              uint32_t max)
{
    ASSERT(max == GRAMMAR_UNBOUNDED || max <= GRAMMAR_REPEAT);
    if (builder->status == STATUS_OK && min > GRAMMAR_REPEAT)
        latch(builder, status_fail(STATUS_LIMIT, __FILE__, __LINE__, NULL,
                                   "a repetition of more than %u times", GRAMMAR_REPEAT));
    if (builder->status != STATUS_OK || min > max)
        return GRAMMAR_NOTHING;
    struct repetition repetition = {0};
    uint32_t more = max == GRAMMAR_UNBOUNDED ? 0 : max - min;
    make_powers(builder, &repetition, symbol, min > more ? min : more);
    grammar_symbol parts[2] = {repeat_exactly(builder, &repetition, min), GRAMMAR_NOTHING};
    if (max == GRAMMAR_UNBOUNDED) {
        grammar_symbol list = grammar_rule(builder);
        grammar_symbol longer[2] = {list, symbol};
        grammar_rule_add(builder, list, NULL, 0);
        grammar_rule_add(builder, list, longer, 2);
        parts[1] = list;
    } else if (more != 0) {
        parts[1] = repeat_at_most(builder, &repetition, more);
    } else {
        return parts[0];
    }
    return min == 0 ? parts[1] : grammar_sequence(builder, parts, 2);
}

/* --- compilation --- */

struct compilation {
    struct grammar_builder *builder;
    uint32_t *missing;       /* of each alternative: uses of rules that may match nothing; NONE:
                              * a use of GRAMMAR_NOTHING */
    uint32_t *used_first;    /* of each rule and one more: where its uses begin in `used` */
    uint32_t *used;          /* alternatives that use the rule, once for each use */
    grammar_symbol *meaning; /* of each rule: itself, a single symbol that it stands for, or
                              * GRAMMAR_NOTHING if it can match nothing */
    uint32_t *number;        /* of each rule in the grammar, or NONE */
    uint32_t *lexeme;        /* the same of each lexeme */
    uint32_t *stack;         /* of rules: at first to be looked at, later in the grammar's order */
    uint32_t stack_count;
    uint32_t lexeme_count;
    uint32_t alternative_count;
    uint32_t dot_count;
    bool is_counted;
};

static void free_compilation(struct compilation *c)
{
    mem_free(c->missing);
    mem_free(c->used_first);
    mem_free(c->used);
    mem_free(c->meaning);
    mem_free(c->number);
    mem_free(c->lexeme);
    mem_free(c->stack);
}

static uint32_t *new_words(size_t count, int byte)
{
    uint32_t *words = mem_alloc((count + 1) * sizeof *words);
    if (words != NULL)
        memset(words, byte, (count + 1) * sizeof *words);
    return words;
}

static enum status make_compilation(struct compilation *c)
{
    struct grammar_builder *builder = c->builder;
    uint32_t rules = builder->rules.count;
    c->missing = new_words(builder->alternatives.count, 0);
    c->used_first = new_words((size_t)rules + 1, 0);
    c->used = new_words(builder->uses.count, 0);
    c->meaning = new_words(rules, 0);
    c->number = new_words(rules, 0xff);
    c->lexeme = new_words(builder->lexemes.count, 0xff);
    c->stack = new_words(rules, 0);
    if (c->missing == NULL || c->used_first == NULL || c->used == NULL || c->meaning == NULL ||
        c->number == NULL || c->lexeme == NULL || c->stack == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to compile a grammar");
    return STATUS_OK;
}

/* Fills `used` and `missing`. */
static void find_uses(struct compilation *c)
{
    const struct grammar_builder *builder = c->builder;
    for (uint32_t i = 0; i < builder->uses.count; i++)
        if (grammar_kind_of(use_at(builder, i)->symbol) == GRAMMAR_RULE)
            c->used_first[grammar_index_of(use_at(builder, i)->symbol) + 1]++;
    for (uint32_t i = 0; i < builder->rules.count; i++)
        c->used_first[i + 1] += c->used_first[i];
    uint32_t *place = c->number; /* borrowed; reset below */
    memcpy(place, c->used_first, builder->rules.count * sizeof *place);
    for (uint32_t a = 0; a < builder->alternatives.count; a++) {
        const struct alternative *alternative = alternative_at(builder, a);
        bool has_nothing = false;
        for (uint32_t i = 0; i < alternative->use_count; i++) {
            grammar_symbol symbol = use_at(builder, alternative->first_use + i)->symbol;
            has_nothing |= symbol == GRAMMAR_NOTHING;
            if (grammar_kind_of(symbol) != GRAMMAR_RULE)
                continue;
            c->used[place[grammar_index_of(symbol)]++] = a;
            c->missing[a]++;
        }
        if (has_nothing)
            c->missing[a] = NONE;
    }
    memset(c->number, 0xff, builder->rules.count * sizeof *c->number);
}

/* The alternative can match something, hence its rule. */
static void can_match(struct compilation *c, uint32_t alternative)
{
    uint32_t rule = alternative_at(c->builder, alternative)->rule;
    if (c->meaning[rule] != GRAMMAR_NOTHING)
        return;
    c->meaning[rule] = grammar_symbol_of(GRAMMAR_RULE, rule);
    c->stack[c->stack_count++] = rule;
}

/* A rule can match something if one of its alternatives has only symbols that can. */
static void find_meanings(struct compilation *c)
{
    for (uint32_t a = 0; a < c->builder->alternatives.count; a++)
        if (c->missing[a] == 0)
            can_match(c, a);
    while (c->stack_count != 0) {
        uint32_t rule = c->stack[--c->stack_count];
        for (uint32_t i = c->used_first[rule]; i < c->used_first[rule + 1]; i++) {
            uint32_t a = c->used[i];
            if (c->missing[a] != NONE && --c->missing[a] == 0)
                can_match(c, a);
        }
    }
}

static bool is_counted(const struct grammar_builder *builder, grammar_symbol symbol)
{
    return grammar_kind_of(symbol) == GRAMMAR_RULE &&
           rule_at(builder, grammar_index_of(symbol))->is_counted;
}

static bool is_new(const struct grammar_builder *builder, grammar_symbol symbol)
{
    return grammar_kind_of(symbol) == GRAMMAR_LEXEME &&
           lexeme_at(builder, grammar_index_of(symbol))->end == GRAMMAR_NEW;
}

/* A rule with one alternative of one symbol stands for that symbol. A counted rule is not replaced,
 * because the count that it gets is that of its use. */
static void find_aliases(struct compilation *c)
{
    const struct grammar_builder *builder = c->builder;
    for (uint32_t r = 0; r < builder->rules.count; r++) {
        uint32_t only = NONE;
        uint32_t count = 0;
        for (uint32_t a = rule_at(builder, r)->first; a != NONE;
             a = alternative_at(builder, a)->next)
            if (c->missing[a] == 0) {
                only = a;
                count++;
            }
        if (count != 1)
            continue;
        const struct alternative *alternative = alternative_at(builder, only);
        const struct grammar_use *use = use_at(builder, alternative->first_use);
        if (alternative->use_count == 1 && !rule_at(builder, r)->is_counted &&
            !is_counted(builder, use->symbol))
            c->meaning[r] = use->symbol;
    }
}

/* What a symbol stands for; shortens the way for the next time. Aliases make no circles, because
 * rules of a circle could not match anything. */
static grammar_symbol meaning_of(struct compilation *c, grammar_symbol symbol)
{
    while (grammar_kind_of(symbol) == GRAMMAR_RULE) {
        uint32_t rule = grammar_index_of(symbol);
        grammar_symbol next = c->meaning[rule];
        if (next == symbol)
            return symbol;
        if (grammar_kind_of(next) == GRAMMAR_RULE)
            c->meaning[rule] = c->meaning[grammar_index_of(next)];
        symbol = next;
    }
    return symbol;
}

/* Gives the symbol a number of the grammar when it is met for the first time. */
static void number_symbol(struct compilation *c, grammar_symbol symbol)
{
    uint32_t index = grammar_index_of(symbol);
    if (grammar_kind_of(symbol) == GRAMMAR_LEXEME && c->lexeme[index] == NONE) {
        c->lexeme[index] = c->lexeme_count++;
    } else if (grammar_kind_of(symbol) == GRAMMAR_RULE && c->number[index] == NONE) {
        c->number[index] = c->stack_count + 1; /* rule 0 is the start */
        c->stack[c->stack_count++] = index;
    }
}

/* Numbers what the start needs, and counts it. */
static enum status find_needed(struct compilation *c, grammar_symbol start)
{
    const struct grammar_builder *builder = c->builder;
    c->stack_count = 0;
    c->alternative_count = 1;
    c->dot_count = 2;
    number_symbol(c, start);
    for (uint32_t at = 0; at < c->stack_count; at++) {
        for (uint32_t a = rule_at(builder, c->stack[at])->first; a != NONE;
             a = alternative_at(builder, a)->next) {
            if (c->missing[a] != 0)
                continue;
            const struct alternative *alternative = alternative_at(builder, a);
            TRY(grammar_fuel_spend(builder->fuel, alternative->use_count + 1));
            c->alternative_count++;
            c->dot_count += alternative->use_count + 1;
            c->is_counted |= rule_at(builder, c->stack[at])->is_counted;
            for (uint32_t i = 0; i < alternative->use_count; i++)
                number_symbol(c,
                              meaning_of(c, use_at(builder, alternative->first_use + i)->symbol));
        }
    }
    return STATUS_OK;
}

static uint32_t final_symbol(const struct compilation *c, grammar_symbol symbol)
{
    uint32_t index = grammar_index_of(symbol);
    switch (grammar_kind_of(symbol)) {
    case GRAMMAR_RULE:
        return grammar_symbol_of(GRAMMAR_RULE, c->number[index]);
    case GRAMMAR_LEXEME:
        return grammar_symbol_of(GRAMMAR_LEXEME, c->lexeme[index]);
    case GRAMMAR_TOKEN:
    case GRAMMAR_END:
        break;
    }
    return symbol;
}

static void put_alternative(struct compilation *c, struct grammar *grammar, uint32_t a,
                            uint32_t rule)
{
    const struct alternative *alternative = alternative_at(c->builder, a);
    grammar->alternatives[grammar->alternative_count++] = (struct grammar_alternative){
        grammar->dot_count, alternative->when.ask, alternative->when.value};
    grammar->rules[rule].count++;
    for (uint32_t i = 0; i < alternative->use_count; i++) {
        const struct grammar_use *use = use_at(c->builder, alternative->first_use + i);
        grammar_symbol symbol = meaning_of(c, use->symbol);
        if (grammar->passing != NULL && is_counted(c->builder, symbol))
            grammar->passing[grammar->dot_count] = (struct grammar_passing){use->value, use->pass};
        if (grammar->passing != NULL && is_new(c->builder, symbol))
            grammar->passing[grammar->dot_count].pass = GRAMMAR_PASS_LIST;
        grammar->dots[grammar->dot_count++] = final_symbol(c, symbol);
    }
    grammar->dots[grammar->dot_count++] = grammar_symbol_of(GRAMMAR_END, rule);
}

static void put_rules(struct compilation *c, struct grammar *grammar, grammar_symbol start)
{
    grammar->rules[0] = (struct grammar_alternatives){0, 1};
    grammar->alternatives[0] = (struct grammar_alternative){0, GRAMMAR_ALWAYS, 0};
    grammar->alternative_count = 1;
    grammar->dots[0] = final_symbol(c, start);
    grammar->dots[1] = grammar_symbol_of(GRAMMAR_END, 0);
    grammar->dot_count = 2;
    for (uint32_t at = 0; at < c->stack_count; at++) {
        grammar->rules[at + 1] = (struct grammar_alternatives){grammar->alternative_count, 0};
        for (uint32_t a = rule_at(c->builder, c->stack[at])->first; a != NONE;
             a = alternative_at(c->builder, a)->next)
            if (c->missing[a] == 0)
                put_alternative(c, grammar, a, at + 1);
    }
    grammar->rule_count = c->stack_count + 1;
}

static enum status make_arrays(struct compilation *c, struct grammar *grammar)
{
    size_t rules = c->stack_count + 1;
    grammar->bytes = sizeof *grammar + rules * sizeof *grammar->rules +
                     c->alternative_count * sizeof *grammar->alternatives +
                     c->dot_count * sizeof *grammar->dots +
                     (c->is_counted ? c->dot_count * sizeof *grammar->passing : 0);
    grammar->rules = mem_zalloc(rules, sizeof *grammar->rules);
    grammar->alternatives = mem_zalloc(c->alternative_count, sizeof *grammar->alternatives);
    grammar->dots = mem_zalloc(c->dot_count, sizeof *grammar->dots);
    if (c->is_counted)
        grammar->passing = mem_zalloc(c->dot_count, sizeof *grammar->passing);
    if (grammar->rules == NULL || grammar->alternatives == NULL || grammar->dots == NULL ||
        (c->is_counted && grammar->passing == NULL))
        FAIL(STATUS_NO_MEMORY, "no memory for a grammar of %zu bytes", grammar->bytes);
    return STATUS_OK;
}

/* The lexer of the lexemes that are needed. It borrows the regexes. */
static enum status make_lexer(struct compilation *c, struct grammar *grammar)
{
    struct lexer_lexeme *lexemes = mem_zalloc((size_t)c->lexeme_count + 1, sizeof *lexemes);
    if (lexemes == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %u lexemes", c->lexeme_count);
    for (uint32_t i = 0; i < c->builder->lexemes.count; i++)
        if (c->lexeme[i] != NONE) {
            const struct lexeme *lexeme = lexeme_at(c->builder, i);
            lexemes[c->lexeme[i]] =
                (struct lexer_lexeme){lexeme->regex, lexeme->end != GRAMMAR_GREEDY};
            grammar->has_lists |= lexeme->end == GRAMMAR_NEW;
        }
    grammar->lexeme_count = c->lexeme_count;
    enum status status = lexer_new(c->builder->regexes, lexemes, c->lexeme_count, &grammar->lexer);
    mem_free(lexemes);
    return status;
}

/* Whether the counts of more rules are seen to be lists than before: a rule with items has the list
 * so far, and hands it on to rules that take the count as it is. */
static bool mark_lists(const struct grammar *grammar)
{
    bool has_more = false;
    for (uint32_t r = 0; r < grammar->rule_count; r++) {
        const struct grammar_alternatives *of = &grammar->rules[r];
        for (uint32_t a = of->first; a < of->first + of->count; a++) {
            uint32_t dot = grammar->alternatives[a].dot;
            for (; grammar_kind_of(grammar->dots[dot]) != GRAMMAR_END; dot++) {
                const struct grammar_passing *pass = &grammar->passing[dot];
                bool is_rule = grammar_kind_of(grammar->dots[dot]) == GRAMMAR_RULE;
                bool is_same = pass->pass == GRAMMAR_PASS_OR && pass->value == 0;
                bool *is_list =
                    &grammar->is_list[is_rule ? grammar_index_of(grammar->dots[dot]) : r];
                if (*is_list || (pass->pass != GRAMMAR_PASS_LIST &&
                                 !(is_rule && is_same && grammar->is_list[r])))
                    continue;
                *is_list = has_more = true;
            }
        }
    }
    return has_more;
}

static enum status find_lists(struct compilation *c, struct grammar *grammar)
{
    if (!grammar->has_lists)
        return STATUS_OK;
    grammar->is_list = mem_zalloc(grammar->rule_count, sizeof *grammar->is_list);
    if (grammar->is_list == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a grammar of %zu bytes", grammar->bytes);
    grammar->bytes += grammar->rule_count * sizeof *grammar->is_list;
    do
        TRY(grammar_fuel_spend(c->builder->fuel, grammar->dot_count));
    while (grammar->passing != NULL && mark_lists(grammar));
    return STATUS_OK;
}

static enum status compile(struct compilation *c, grammar_symbol start, struct grammar *grammar)
{
    struct grammar_builder *builder = c->builder;
    TRY(make_compilation(c));
    TRY(grammar_fuel_spend(builder->fuel, builder->uses.count + builder->rules.count));
    find_uses(c);
    find_meanings(c);
    if (grammar_kind_of(start) == GRAMMAR_RULE && c->meaning[grammar_index_of(start)] == 0)
        start = GRAMMAR_NOTHING;
    if (start == GRAMMAR_NOTHING)
        FAIL(STATUS_INVALID, "no value can match");
    find_aliases(c);
    start = meaning_of(c, start);
    TRY(find_needed(c, start));
    TRY(make_arrays(c, grammar));
    put_rules(c, grammar, start);
    TRY(make_lexer(c, grammar));
    TRY(find_lists(c, grammar));
    return grammar_kept_new(&grammar->kept);
}

enum status grammar_finish(struct grammar_builder *builder, grammar_symbol start,
                           struct grammar **out)
{
    *out = NULL;
    TRY(grammar_builder_status(builder));
    struct grammar *grammar = mem_zalloc(1, sizeof *grammar);
    if (grammar == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a grammar");
    atomic_init(&grammar->references, 1);
    struct compilation c = {.builder = builder};
    enum status status = compile(&c, start, grammar);
    free_compilation(&c);
    if (status == STATUS_OK && grammar_bytes(grammar) > LIMIT_GRAMMAR_BYTES)
        status = status_fail(STATUS_LIMIT, __FILE__, __LINE__, NULL,
                             "the grammar has more than %u bytes", LIMIT_GRAMMAR_BYTES);
    if (status != STATUS_OK) {
        grammar_drop(grammar);
        return status;
    }
    grammar->regexes = builder->regexes;
    builder->regexes = NULL;
    builder->status = STATUS_CONFLICT; /* nothing can be added any more */
    *out = grammar;
    return STATUS_OK;
}

struct grammar *grammar_hold(struct grammar *grammar)
{
    atomic_fetch_add_explicit(&grammar->references, 1, memory_order_relaxed);
    return grammar;
}

void grammar_drop(struct grammar *grammar)
{
    if (grammar == NULL ||
        atomic_fetch_sub_explicit(&grammar->references, 1, memory_order_acq_rel) != 1)
        return;
    grammar_kept_free(grammar->kept);
    lexer_free(grammar->lexer);
    regex_pool_free(grammar->regexes);
    mem_free(grammar->rules);
    mem_free(grammar->alternatives);
    mem_free(grammar->dots);
    mem_free(grammar->passing);
    mem_free(grammar->is_list);
    mem_free(grammar);
}

size_t grammar_bytes(const struct grammar *grammar)
{
    return grammar->bytes + (grammar->lexer != NULL ? lexer_bytes(grammar->lexer) : 0) +
           (grammar->kept != NULL ? grammar_kept_bytes(grammar->kept) : 0);
}

size_t grammar_part_bytes(const struct grammar *grammar)
{
    return grammar_bytes(grammar) /
           atomic_load_explicit(&grammar->references, memory_order_relaxed);
}

void grammar_note(struct grammar *grammar, const uint64_t notes[GRAMMAR_NOTES])
{
    memcpy(grammar->notes, notes, sizeof grammar->notes);
}

const uint64_t *grammar_notes(const struct grammar *grammar)
{
    return grammar->notes;
}

bool grammar_is_full(const struct grammar *grammar)
{
    return grammar->lexer != NULL && lexer_status(grammar->lexer) != STATUS_OK;
}

uint32_t grammar_rules(const struct grammar *grammar)
{
    return grammar->rule_count;
}

uint32_t grammar_lexemes(const struct grammar *grammar)
{
    return grammar->lexeme_count;
}
