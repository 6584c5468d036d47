#include "auth/limits/quota_lease.h"

enum {
    TOKENS_PER_1024 = 256,   /* one token for four bytes, as in English */
    BYTES_A_TOKEN_MOST = 16, /* a prompt has at least one token for so many bytes of its body */
    FINE_BITS = 2,
};

static const int64_t UNIT = 60000000; /* one token or request in a level */
static const int64_t MINUTE_US = 60000000;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static enum quota_window window_of(int limit)
{
    return quota_limits_form((enum quota_limit)limit)->window;
}

static bool is_budget(int limit)
{
    return quota_limits_is_budget((enum quota_limit)limit);
}

/* --- buckets --- */

static int64_t full_level(const struct quota_account *account, int limit)
{
    return account->set.values[limit].limit * UNIT;
}

static void bucket_fill(struct quota_account *account, int limit, int64_t now_us)
{
    int64_t full = full_level(account, limit);
    int64_t passed = now_us - account->at_us[limit];
    int64_t lacking = full - account->levels[limit];
    int64_t rate = account->set.values[limit].limit;
    if (passed <= 0)
        return;
    account->at_us[limit] = now_us;
    /* The time passed fills the bucket, or is more than the product below can hold. */
    if (passed / MINUTE_US > lacking / UNIT / (rate > 0 ? rate : 1) + 1)
        account->levels[limit] = full;
    else
        account->levels[limit] = least(full, account->levels[limit] + passed * rate);
}

static void bucket_add(struct quota_account *account, int limit, int64_t amount)
{
    account->levels[limit] =
        least(full_level(account, limit), account->levels[limit] + amount * UNIT);
}

static int64_t level_floor(int64_t level)
{
    return level >= 0 ? level / UNIT : -((-level + UNIT - 1) / UNIT);
}

int64_t quota_lease_sum(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t counted_used(const struct quota_account *account, int limit)
{
    return quota_lease_sum(account->is_past[limit] ? 0 : account->counted[limit],
                           account->held[limit]);
}

/* Returns how much of a limit a lease could take now. */
static int64_t room_of(struct quota_account *account, int limit, int64_t now_us)
{
    if (window_of(limit) != QUOTA_MINUTE)
        return account->set.values[limit].limit - counted_used(account, limit);
    bucket_fill(account, limit, now_us);
    return level_floor(account->levels[limit]);
}

void quota_lease_set(struct quota_account *account, const struct quota_limits_set *set,
                     int64_t now_us)
{
    const struct quota_limits_set old = account->set;
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        if (window_of(i) != QUOTA_MINUTE)
            continue;
        bucket_fill(account, i, now_us);
        int64_t used = old.values[i].limit != 0 ? full_level(account, i) - account->levels[i] : 0;
        account->at_us[i] = now_us;
        int64_t owed = least(account->levels[i], 0);
        int64_t level = set->values[i].limit * UNIT - used;
        /* a lower limit makes no level negative */
        account->levels[i] = level > owed ? level : owed;
    }
    account->set = *set;
}

void quota_lease_init(struct quota_account *account, const struct quota_limits_set *set,
                      int64_t now_us)
{
    *account = (struct quota_account){0};
    quota_lease_set(account, set, now_us);
}

/* --- guesses --- */

/* Returns the class of a length: one class each for 0, 1, 2 and 3, then four classes an octave. */
static uint32_t class_of(int64_t length)
{
    if (length < 1 << FINE_BITS)
        return length > 0 ? (uint32_t)length : 0;
    uint32_t octave = 63u - (uint32_t)__builtin_clzll((unsigned long long)length);
    uint32_t fine = (uint32_t)(length >> (octave - FINE_BITS)) & 3;
    uint32_t place = ((octave - 1) << FINE_BITS) + fine;
    return place < QUOTA_LEASE_CLASSES ? place : QUOTA_LEASE_CLASSES - 1;
}

/* Returns the greatest length of a class. */
static int64_t class_most(uint32_t place)
{
    if (place < 1 << FINE_BITS)
        return place;
    uint32_t octave = (place >> FINE_BITS) + 1;
    return ((int64_t)(place & 3) + 5) * (INT64_C(1) << (octave - FINE_BITS)) - 1;
}

static void lengths_add(struct quota_account *account, int64_t length)
{
    account->lengths[class_of(length)]++;
    if (++account->lengths_total < QUOTA_LEASE_HISTORY)
        return;
    account->lengths_total = 0;
    for (int i = 0; i < QUOTA_LEASE_CLASSES; i++) {
        account->lengths[i] /= 2;
        account->lengths_total += account->lengths[i];
    }
}

/* Estimates the output: a length that nine of ten earlier answers of the account do not exceed. */
static int64_t guess_output(const struct quota_account *account, int64_t most)
{
    int64_t guess = LIMIT_QUOTA_OUTPUT;
    uint32_t seen = 0;
    if (account->lengths_total > 0) {
        uint32_t place = 0;
        for (seen = account->lengths[0]; 10 * seen < 9 * account->lengths_total;)
            seen += account->lengths[++place];
        guess = class_most(place);
    }
    guess = guess < 1 ? 1 : guess;
    return most > 0 ? least(guess, most) : guess;
}

static int64_t guess_input(const struct quota_account *account, size_t body_bytes)
{
    int64_t rate = account->tokens_per_1024 != 0 ? account->tokens_per_1024 : TOKENS_PER_1024;
    int64_t tokens = ((int64_t)body_bytes * rate + 1023) / 1024;
    return tokens > 0 ? tokens : 1;
}

static void guess_learn(struct quota_account *account, size_t body_bytes, int64_t prompt)
{
    if (body_bytes == 0)
        return;
    int64_t seen = least(prompt * 1024 / (int64_t)body_bytes, 1024);
    int64_t rate = account->tokens_per_1024 != 0 ? account->tokens_per_1024 : TOKENS_PER_1024;
    rate += (seen - rate) / 8;
    account->tokens_per_1024 = (uint32_t)(rate > 0 ? rate : 1);
}

int64_t quota_lease_input(const struct quota_limits_set *set, int64_t prompt, int64_t cached)
{
    int64_t percent = set->cached_percent > 0 ? set->cached_percent : 0;
    return prompt - cached + (cached * percent + 99) / 100;
}

/* --- charging --- */

/* What a lease holds, or a change of it. */
struct amounts {
    int64_t requests;
    int64_t text_bytes;
    int64_t prompt;
    int64_t input;
    int64_t output;
    int64_t cost;
};

static struct amounts one_output(const struct price_tokens *price)
{
    return (struct amounts){.output = 1, .cost = price->output_nano};
}

static struct amounts new_input(const struct price_tokens *price, int64_t input)
{
    return (struct amounts){.prompt = input, .input = input, .cost = price_sum(price, input, 0, 0)};
}

/* Returns the part of the amounts that a limit counts, in the limit's unit. */
static int64_t amount_of(int limit, struct amounts of)
{
    switch (quota_limits_form((enum quota_limit)limit)->counts) {
    case QUOTA_COUNTS_REQUESTS:
        return of.requests;
    case QUOTA_COUNTS_TEXT_BYTES:
        return of.text_bytes;
    case QUOTA_COUNTS_INPUT:
        return of.input;
    case QUOTA_COUNTS_OUTPUT:
        return of.output;
    case QUOTA_COUNTS_KV_TOKENS:
        return of.prompt + of.output;
    case QUOTA_COUNTS_COST:
        return of.cost;
    case QUOTA_COUNTS_TOKENS:
        break;
    }
    return of.input + of.output;
}

int64_t quota_lease_amount(const struct quota_limits_set *set, enum quota_limit limit,
                           const struct quota_use *used)
{
    return amount_of((int)limit,
                     (struct amounts){.requests = used->requests,
                                      .input = quota_lease_input(set, used->prompt, used->cached),
                                      .output = used->output,
                                      .cost = used->cost_nano});
}

/* Returns what an open lease holds. */
static struct amounts lease_amounts(const struct quota_lease *lease)
{
    return (struct amounts){
        .requests = 1,
        .text_bytes = (int64_t)lease->body_bytes,
        .prompt = lease->prompt,
        .input = lease->input,
        .output = lease->output,
        .cost = price_sum(&lease->price, lease->prompt, lease->cached, lease->output)};
}

/* Returns `a` − `b`. With zeros as `a`, this is the refund of `b`. */
static struct amounts amounts_less(struct amounts a, struct amounts b)
{
    return (struct amounts){.requests = a.requests - b.requests,
                            .text_bytes = a.text_bytes - b.text_bytes,
                            .prompt = a.prompt - b.prompt,
                            .input = a.input - b.input,
                            .output = a.output - b.output,
                            .cost = a.cost - b.cost};
}

/* Charges the account for a change of a lease; amounts below 0 are given back. */
static void charge(struct quota_account *account, uint32_t charged, struct amounts more)
{
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        int64_t amount = amount_of(i, more);
        if (window_of(i) != QUOTA_MINUTE)
            account->held[i] += amount;
        else if ((charged & 1u << i) != 0 && account->set.values[i].limit != 0)
            bucket_add(account, i, -amount);
    }
}

static void lease_unlink(struct quota_lease *lease)
{
    if (lease->next != NULL)
        lease->next->previous = lease->previous;
    if (lease->previous != NULL)
        lease->previous->next = lease->next;
    else
        lease->account->leases = lease->next;
}

/* Gives back leases that are past their deadline. This should not happen, because a request ends
 * before. */
static void expire_old(struct quota_account *account, int64_t now_us)
{
    struct quota_lease *next = NULL;
    for (struct quota_lease *lease = account->leases; lease != NULL; lease = next) {
        next = lease->next;
        if (now_us < lease->deadline_us)
            continue;
        charge(account, lease->charged, amounts_less((struct amounts){0}, lease_amounts(lease)));
        lease_unlink(lease);
        lease->is_expired = true;
        lease->prompt = lease->cached = lease->input = lease->output = 0;
    }
}

/* --- reserving --- */

/* Estimates the input. An estimate above a limit is lowered to the limit, unless the body has too
 * many bytes to fit. The true number is charged when the engine has counted the tokens. */
static int64_t reserve_input(const struct quota_account *account, const struct quota_ask *ask)
{
    int64_t input = guess_input(account, ask->body_bytes);
    int64_t fewest = ((int64_t)ask->body_bytes + BYTES_A_TOKEN_MOST - 1) / BYTES_A_TOKEN_MOST;
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        int64_t most = account->set.values[i].limit - amount_of(i, one_output(&ask->price));
        if (!is_budget(i) && amount_of(i, new_input(&ask->price, 1)) != 0 && most > 0 &&
            fewest <= most)
            input = least(input, most);
    }
    return input;
}

/* Estimates the output, at most what the limits allow beside the input. A larger estimate would
 * keep the request out for ever. */
static int64_t reserve_output(struct quota_account *account, const struct quota_ask *ask,
                              int64_t input)
{
    int64_t output = guess_output(account, ask->output_most);
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        int64_t most = account->set.values[i].limit;
        int64_t each = amount_of(i, one_output(&ask->price));
        if (most == 0 || each == 0)
            continue;
        if (is_budget(i))
            most -= counted_used(account, i);
        output = least(output, (most - amount_of(i, new_input(&ask->price, input))) / each);
    }
    return output > 0 ? output : 1;
}

static int64_t wait_us(const struct quota_account *account, int limit, int64_t amount)
{
    int64_t rate = account->set.values[limit].limit;
    int64_t lacking = amount * UNIT - account->levels[limit];
    return lacking > 0 ? (lacking + rate - 1) / rate : 0;
}

/* Ranks the budget of a month first, then that of a day, then a request that is too large, then a
 * bucket by its waiting time. */
static int64_t denial_rank(const struct quota_denial *denial)
{
    enum quota_window window = window_of((int)denial->limit);
    if (window == QUOTA_MONTH)
        return INT64_MAX;
    if (window == QUOTA_DAY)
        return INT64_MAX - 1;
    return denial->is_never ? INT64_MAX - 2 : denial->reset_us;
}

bool quota_lease_is_longer(const struct quota_denial *a, const struct quota_denial *b)
{
    return denial_rank(a) > denial_rank(b);
}

static bool limit_allows(struct quota_account *account, int limit, int64_t amount, int64_t now_us,
                         struct quota_denial *out)
{
    int64_t most = account->set.values[limit].limit;
    int64_t room = room_of(account, limit, now_us);
    if (amount <= room)
        return true;
    *out = (struct quota_denial){.limit = (enum quota_limit)limit,
                                 .most = most,
                                 .used = most - room,
                                 .requested = amount,
                                 .is_never = amount > most};
    if (window_of(limit) == QUOTA_MINUTE && !out->is_never)
        out->reset_us = wait_us(account, limit, amount);
    return false;
}

/* Whether a limit that is met lets the request go on in the lowest class. Only limits on tokens do
 * that. */
static bool limit_lowers(const struct quota_account *account, int limit)
{
    return account->set.on_limit == QUOTA_ON_LIMIT_LOWER_CLASS && window_of(limit) != QUOTA_NOW &&
           amount_of(limit, (struct amounts){.input = 1, .output = 1}) > 0;
}

/* Whether all limits let the lease pass. `charged` gets the limits that it would be charged to. */
static bool reserve_check(struct quota_account *account, const struct quota_lease *lease,
                          int64_t now_us, uint32_t *charged, struct quota_denial *denial)
{
    bool is_allowed = true;
    uint32_t shadow = 0;
    uint32_t lowered = 0;
    *charged = 0;
    *denial = (struct quota_denial){0};
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        struct quota_denial found;
        int64_t amount = amount_of(i, lease_amounts(lease));
        /* A request that takes nothing from a limit passes it, even if the limit is spent or its
         * level is negative. */
        if (account->set.values[i].limit == 0 || amount == 0 ||
            limit_allows(account, i, amount, now_us, &found)) {
            *charged |= 1u << i;
        } else if (account->set.values[i].is_shadow) {
            shadow |= 1u << i;
        } else if (limit_lowers(account, i)) {
            lowered |= 1u << i;
        } else {
            if (is_allowed || quota_lease_is_longer(&found, denial))
                *denial = found;
            is_allowed = false;
        }
    }
    denial->shadow = shadow;
    denial->lowered = lowered;
    return is_allowed;
}

bool quota_lease_reserve(struct quota_account *account, const struct quota_ask *ask,
                         struct quota_lease *lease, struct quota_denial *denial)
{
    int64_t input = ask->is_text ? 0 : reserve_input(account, ask);
    bool has_output = !ask->is_text && !ask->has_no_output;
    *lease = (struct quota_lease){.deadline_us = ask->deadline_us,
                                  .price = ask->price,
                                  .prompt = input,
                                  .input = input,
                                  .output = has_output ? reserve_output(account, ask, input) : 0,
                                  .output_most = ask->output_most,
                                  .has_no_output = ask->has_no_output,
                                  .body_bytes = ask->body_bytes};
    bool is_allowed = reserve_check(account, lease, ask->now_us, &lease->charged, denial);
    if (!is_allowed && window_of((int)denial->limit) != QUOTA_MINUTE) {
        expire_old(account, ask->now_us);
        is_allowed = reserve_check(account, lease, ask->now_us, &lease->charged, denial);
    }
    if (!is_allowed)
        return false;
    charge(account, lease->charged, lease_amounts(lease));
    lease->account = account;
    lease->next = account->leases;
    if (account->leases != NULL)
        account->leases->previous = lease;
    account->leases = lease;
    return true;
}

void quota_lease_prompt(struct quota_lease *lease, int64_t prompt, int64_t cached, int64_t now_us)
{
    struct quota_account *account = lease->account;
    if (account == NULL || lease->is_expired)
        return;
    int64_t input = quota_lease_input(&account->set, prompt, cached);
    for (int i = 0; i < QUOTA_LIMITS; i++)
        (void)room_of(account, i, now_us);
    struct amounts before = lease_amounts(lease);
    lease->prompt = prompt;
    lease->cached = cached;
    lease->input = input;
    charge(account, lease->charged, amounts_less(lease_amounts(lease), before));
}

/* Returns how many of the `wanted` tokens all limits allow. A shadow limit, or one that lowers the
 * class, that lacks the room for `needed` tokens is noted in `denial`, and the lease is no longer
 * charged to it. */
static int64_t extend_room(struct quota_lease *lease, int64_t wanted, int64_t needed,
                           int64_t now_us, struct quota_denial *denial)
{
    struct quota_account *account = lease->account;
    uint32_t shadow = 0;
    uint32_t lowered = 0;
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        uint32_t bit = 1u << i;
        int64_t each = amount_of(i, one_output(&lease->price));
        if (account->set.values[i].limit == 0 || (lease->charged & bit) == 0 || each == 0)
            continue;
        int64_t room = room_of(account, i, now_us) / each;
        bool is_shadow = account->set.values[i].is_shadow;
        if (room >= needed || (!is_shadow && !limit_lowers(account, i))) {
            if (!limit_allows(account, i, wanted * each, now_us, denial))
                wanted = room;
        } else {
            *(is_shadow ? &shadow : &lowered) |= bit;
            lease->charged &= ~bit;
        }
    }
    denial->shadow = shadow;
    denial->lowered = lowered;
    return wanted;
}

/* Whether the lease covers `output` tokens and `ahead` more. An answer that has reached its
 * max_tokens needs no more. */
static bool extend_covers(const struct quota_lease *lease, int64_t output, int64_t ahead)
{
    bool is_most = lease->output_most > 0 && lease->output >= lease->output_most;
    return output + ahead < lease->output || (is_most && output <= lease->output_most);
}

bool quota_lease_extend(struct quota_lease *lease, int64_t output, int64_t now_us,
                        struct quota_denial *denial)
{
    *denial = (struct quota_denial){0};
    if (lease->account == NULL || lease->is_expired ||
        extend_covers(lease, output, LIMIT_QUOTA_AHEAD - 1))
        return true;
    /* More tokens may have come at once than the lease has. */
    int64_t needed = output < lease->output ? 1 : output + 1 - lease->output;
    int64_t wanted = needed - 1 + LIMIT_QUOTA_EXTENSION;
    /* Outside of this condition the request has more choices than were read from its body. */
    if (lease->output_most > lease->output && output <= lease->output_most)
        wanted = least(wanted, lease->output_most - lease->output);
    int64_t more = extend_room(lease, wanted, least(needed, wanted), now_us, denial);
    if (more > 0) {
        struct amounts before = lease_amounts(lease);
        lease->output += more;
        charge(lease->account, lease->charged, amounts_less(lease_amounts(lease), before));
    }
    return extend_covers(lease, output, 0);
}

void quota_lease_worked(struct quota_lease *lease)
{
    lease->is_worked = lease->account != NULL;
}

/* Returns what stays charged to the limits of a minute. */
static struct amounts settle_kept(const struct quota_lease *lease, int64_t prompt, int64_t input,
                                  int64_t output)
{
    struct amounts kept = {.requests = 1, .text_bytes = (int64_t)lease->body_bytes};
    if (prompt == 0 && !lease->is_worked)
        return (struct amounts){0};
    kept.input = prompt > 0 ? input : lease->input;
    kept.output = prompt > 0 ? output : 0;
    return kept;
}

void quota_lease_settle(struct quota_lease *lease, int64_t prompt, int64_t cached, int64_t output,
                        int64_t now_us)
{
    struct quota_account *account = lease->account;
    if (account == NULL)
        return;
    bool is_held = !lease->is_expired;
    struct amounts held = is_held ? lease_amounts(lease) : (struct amounts){0};
    struct amounts kept =
        settle_kept(lease, prompt, quota_lease_input(&account->set, prompt, cached), output);
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        (void)room_of(account, i, now_us);
        if (window_of(i) == QUOTA_MINUTE && account->set.values[i].limit != 0 &&
            (lease->charged & 1u << i) != 0)
            bucket_add(account, i, amount_of(i, held) - amount_of(i, kept));
    }
    if (is_held) {
        charge(account, 0, amounts_less((struct amounts){0}, lease_amounts(lease)));
        lease_unlink(lease);
    }
    if (prompt > 0) {
        if (!lease->has_no_output)
            lengths_add(account, output);
        guess_learn(account, lease->body_bytes, prompt);
    }
    lease->account = NULL;
}

void quota_lease_count(struct quota_account *account, const struct quota_use *used)
{
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        if (is_budget(i))
            account->counted[i] = quota_lease_sum(
                account->counted[i], quota_lease_amount(&account->set, (enum quota_limit)i, used));
    }
}

void quota_lease_recall(struct quota_account *account, int64_t prompt, int64_t cached,
                        int64_t output, int64_t now_us)
{
    struct amounts used = {.requests = 1,
                           .prompt = prompt,
                           .input = quota_lease_input(&account->set, prompt, cached),
                           .output = output};
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        if (window_of(i) != QUOTA_MINUTE || account->set.values[i].limit == 0)
            continue;
        int64_t room = room_of(account, i, now_us);
        if (room > 0)
            bucket_add(account, i, -least(amount_of(i, used), room));
    }
}

struct quota_standing quota_lease_standing(struct quota_account *account, enum quota_limit limit,
                                           int64_t now_us)
{
    struct quota_standing standing = {.limit = account->set.values[limit].limit,
                                      .is_shadow = account->set.values[limit].is_shadow,
                                      .is_known = true};
    if (standing.limit == 0)
        return standing;
    int64_t room = room_of(account, (int)limit, now_us);
    standing.remaining = room > 0 ? room : 0;
    if (window_of((int)limit) == QUOTA_MINUTE)
        standing.reset_us = wait_us(account, (int)limit, standing.limit);
    return standing;
}
