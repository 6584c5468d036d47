#include "engine/step/step_cost.h"

#include <stdlib.h>

enum { TERMS = 3, SWEEPS = 64 };

/* Weight of the last fit: that of half an average step of the window. */
static const double kept_steps = 0.5;

/* How far a slower step raises the best one, and a refusal lowers it. */
static const double best_rise = 1.0 / 16;
static const double best_doubt = 1.0 / 16;

/* The same for the time of sampling. */
static const double draw_rise = 1.0 / 4;
static const double draw_fall = 1.0 / 32;

double step_cost_predict(const struct scheduler_cost *cost, double rows, double keys)
{
    return cost->fixed_us + rows * cost->row_us + keys * cost->key_us;
}

static void best_add(struct step_cost *cost, double rows, double us)
{
    double as_best = us * cost->best.rows / rows;
    if (cost->best.rows == 0 || as_best < cost->best.us) {
        cost->best.rows = rows;
        cost->best.us = us;
    } else if (2 * rows >= cost->best.rows) {
        cost->best.us += (as_best - cost->best.us) * best_rise;
    }
}

/* A step of more rows takes at least as long as one of fewer, and at most as long for each row. */
double step_cost_least(const struct step_cost *cost, double rows, double rows_max)
{
    double chunk = rows < rows_max ? rows : rows_max;
    if (cost->best.rows == 0)
        return 0;
    double part = chunk < cost->best.rows ? chunk / cost->best.rows : 1;
    return cost->best.us * part * rows / chunk;
}

void step_cost_doubt(struct step_cost *cost)
{
    cost->best.us -= cost->best.us * best_doubt;
}

/* Normal equations of Σ ((x·b − us) ÷ us)², with the last fit's pull on each term. */
static void fit_equations(const struct step_cost *cost, uint32_t count, const double last[TERMS],
                          double a[TERMS][TERMS], double b[TERMS])
{
    for (uint32_t i = 0; i < count; i++) {
        const struct step_cost_sample *sample = &cost->samples[i];
        const double x[TERMS] = {1, sample->rows, sample->keys};
        for (uint32_t j = 0; j < TERMS; j++) {
            b[j] += x[j] / sample->us;
            for (uint32_t k = 0; k < TERMS; k++)
                a[j][k] += x[j] * x[k] / (sample->us * sample->us);
        }
    }
    for (uint32_t j = 0; j < TERMS; j++) {
        double pull = a[j][j] * kept_steps / count;
        a[j][j] += pull;
        b[j] += pull * last[j];
    }
}

static void fit_mean(struct step_cost *cost, uint32_t count)
{
    double a[TERMS][TERMS] = {{0}};
    double b[TERMS] = {0};
    double x[TERMS] = {cost->fit.fixed_us, cost->fit.row_us, cost->fit.key_us};
    fit_equations(cost, count, x, a, b);
    for (uint32_t sweep = 0; sweep < SWEEPS; sweep++) {
        for (uint32_t j = 0; j < TERMS; j++) {
            double rest = b[j];
            for (uint32_t k = 0; k < TERMS; k++)
                rest -= k != j ? a[j][k] * x[k] : 0;
            x[j] = a[j][j] > 0 && rest > 0 ? rest / a[j][j] : 0;
        }
    }
    cost->fit.fixed_us = x[0];
    cost->fit.row_us = x[1];
    cost->fit.key_us = x[2];
}

static int fit_compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static void fit_bound(struct step_cost *cost, uint32_t count)
{
    double ratios[STEP_COST_WINDOW];
    for (uint32_t i = 0; i < count; i++) {
        const struct step_cost_sample *sample = &cost->samples[i];
        double predicted = step_cost_predict(&cost->fit, sample->rows, sample->keys);
        ratios[i] = predicted > 0 ? sample->us / predicted : 1;
    }
    qsort(ratios, count, sizeof(ratios[0]), fit_compare);
    double ratio = ratios[(count * 9 - 1) / 10];
    cost->bound.fixed_us = cost->fit.fixed_us * ratio;
    cost->bound.row_us = cost->fit.row_us * ratio;
    cost->bound.key_us = cost->fit.key_us * ratio;
}

void step_cost_draw(struct step_cost *cost, double work, double us)
{
    if (work <= 0 || us <= 0)
        return;
    double each = us / work;
    /* One delay of a thread says little about what sampling takes. */
    if (cost->fit.draw_us > 0 && each > 2 * cost->fit.draw_us)
        each = 2 * cost->fit.draw_us;
    double change = each - cost->fit.draw_us;
    cost->fit.draw_us += change * (change > 0 ? draw_rise : draw_fall);
    cost->bound.draw_us = cost->fit.draw_us;
}

void step_cost_kinds(struct step_cost *cost, uint32_t window, double window_share)
{
    cost->fit.window = cost->bound.window = window;
    cost->fit.window_share = cost->bound.window_share = window_share;
}

void step_cost_add(struct step_cost *cost, uint32_t rows, double keys, int64_t us)
{
    if (us <= 0)
        return;
    best_add(cost, rows, (double)us);
    cost->samples[cost->next] = (struct step_cost_sample){rows, keys, (double)us};
    cost->next = (cost->next + 1) % STEP_COST_WINDOW;
    cost->count++;
    if (cost->count % STEP_COST_EVERY != 0)
        return;
    uint32_t count = cost->count < STEP_COST_WINDOW ? (uint32_t)cost->count : STEP_COST_WINDOW;
    fit_mean(cost, count);
    fit_bound(cost, count);
}
