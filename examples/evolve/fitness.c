/* fitness.c - fitness functions for zt-dna evolve: a program that opens networks and scores them.
 *
 *     cc fitness.c $(pkg-config --cflags --libs zt) -lm -o fitness
 *     ./fitness xor net.json          4 less the squared errors of the four rows: above 3.9 is solved
 *     ./fitness poles net.json        steps of 0.02 s that two poles on a cart are balanced, at most 100000
 *     ./fitness hidden net.json       the same poles without velocities: a fitness for calm (poles.h), and 100000 if it is solved
 *     ./fitness poles -w NET...       the same of many networks, each in a file of the network's name with .score
 *
 * With -w one process scores a whole generation, which zt-dna evolve without --fitness wrote:
 *
 *     zt-dna evolve --population 150 net.json -o run
 *     while [ -s run/pending ]; do xargs ./fitness poles -w <run/pending; zt-dna evolve --resume -o run; done
 *
 * A network's inputs are the numbers of the task and a constant 1. Where velocities are hidden, it has three more outputs, which
 * are inputs of the next step: its memory. The poles and what the network sees of them are in poles.h.
 */
#include "poles.h"

#include <zt/all.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 100000, SEEN = 3, MEMORY = 3 }; /* SEEN: where velocities are hidden */

typedef struct player {
    zt_ctx *ctx;
    zt_engine *engine;
    zt_nn *network;
    zt_prog *program;
    zt_session *session;
    float input[8], output[4];
} player;

static bool open_network(player *p, const char *path, int64_t inputs)
{
    zt_nn_shape shape = {.rank = 2, .dim = {0, inputs}};
    p->network = zt_nn_open(p->ctx, path, 0);
    p->program = p->network ? zt_nn_prog(p->network, &shape) : NULL;
    zt_store store = zt_nn_store(p->network);
    p->session = p->program ? zt_session_open(p->engine, p->program, &store, NULL) : NULL;
    return p->session != NULL;
}

static void close_network(player *p)
{
    zt_session_close(p->session);
    zt_prog_free(p->program);
    zt_nn_close(p->network);
}

/* The first output for the row in p->input. */
static bool play(player *p, double *output)
{
    const void *inputs[] = {p->input};
    void *outputs[] = {p->output};
    if (zt_session_step(p->session, &(zt_binding){"n", 1}, 1, inputs, outputs) != ZT_OK) return false;
    *output = p->output[0];
    return true;
}

static bool play_xor(player *p, double *fitness)
{
    double error = 0, output = 0;
    for (int i = 0; i < 4; i++) {
        p->input[0] = (float)(i / 2);
        p->input[1] = (float)(i % 2);
        p->input[2] = 1;
        if (!play(p, &output)) return false;
        double off = output - (i == 1 || i == 2);
        error += off * off;
    }
    *fitness = 4 - error;
    return true;
}

static bool play_poles(player *p, double *fitness)
{
    double state[STATE], output = 0;
    long steps = 0;
    begin_poles(state);
    for (; steps < MOST_STEPS && is_balanced(state); steps++) {
        for (int i = 0; i < STATE; i++) p->input[i] = (float)see_poles(state, i);
        p->input[STATE] = 1;
        if (!play(p, &output)) return false;
        push_poles(state, output);
    }
    *fitness = (double)steps;
    return true;
}

static bool play_hidden(player *p, double *fitness)
{
    static const int seen[SEEN] = {CART, ANGLE_1, ANGLE_2};
    double state[STATE], unrest[CALM_STEPS] = {0}, output = 0, sum = 0;
    float *memory = p->input + SEEN + 1;
    long steps = 0;
    begin_poles(state);
    memset(memory, 0, MEMORY * sizeof *memory);
    for (; steps < MOST_STEPS && is_balanced(state); steps++) {
        for (int i = 0; i < SEEN; i++) p->input[i] = (float)see_poles(state, seen[i]);
        p->input[SEEN] = 1;
        if (!play(p, &output)) return false;
        memcpy(memory, p->output + 1, MEMORY * sizeof *memory);
        push_poles(state, output);
        if (steps < RATED_STEPS) unrest[steps % CALM_STEPS] = unrest_of(state);
    }
    for (int i = 0; i < CALM_STEPS; i++) sum += unrest[i];
    *fitness = steps == MOST_STEPS ? MOST_STEPS : rate_calm(steps, sum);
    return true;
}

typedef struct task {
    const char *name;
    int64_t inputs;
    bool (*play_task)(player *p, double *fitness);
} task;
static const task tasks[] = {{"xor", 3, play_xor}, {"poles", STATE + 1, play_poles}, {"hidden", SEEN + 1 + MEMORY, play_hidden}};

static bool score(player *p, const task *played, const char *path, double *fitness)
{
    bool good = open_network(p, path, played->inputs) && played->play_task(p, fitness);
    if (!good) fprintf(stderr, "fitness: %s\n", zt_ctx_error(p->ctx));
    close_network(p);
    return good;
}

/* A network that cannot be scored has a text that is no number. */
static bool write_score(player *p, const task *played, const char *path)
{
    char name[4096];
    double fitness = 0;
    size_t length = strlen(path);
    if (length > 5 && !strcmp(path + length - 5, ".json")) length -= 5;
    snprintf(name, sizeof name, "%.*s.score", (int)length, path);
    bool good = score(p, played, path, &fitness);
    FILE *file = fopen(name, "w");
    if (!file) return false;
    if (good)
        fprintf(file, "%.9g\n", fitness);
    else
        fprintf(file, "failed: %s\n", zt_ctx_error(p->ctx));
    zt_ctx_clear(p->ctx);
    return fclose(file) == 0;
}

static int run_task(const task *played, char **paths, int count, bool write)
{
    player p = {.ctx = zt_ctx_new()};
    double fitness = 0;
    p.engine = zt_engine_open(p.ctx, "cpu", &(zt_engine_opts){.threads = 1});
    bool good = p.engine != NULL;
    for (int i = 0; i < count && good; i++)
        good = write ? write_score(&p, played, paths[i]) : score(&p, played, paths[i], &fitness);
    if (good && !write) printf("%.9g\n", fitness);
    zt_engine_close(p.engine);
    zt_ctx_free(p.ctx);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    bool write = argc > 3 && !strcmp(argv[2], "-w");
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks && (argc == 3 || write); i++)
        if (!strcmp(argv[1], tasks[i].name)) return run_task(&tasks[i], argv + 2 + write, argc - 2 - write, write);
    fprintf(stderr, "usage: fitness xor|poles|hidden NET | fitness xor|poles|hidden -w NET...\n");
    return 64;
}
