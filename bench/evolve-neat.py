"""evolve-neat.py - neat-python on the tasks of examples/evolve/fitness.c, for bench/evolve.

    evolve-neat.py TASK GENERATIONS POPULATION POLES SEED...

TASK: xor, poles or hidden. POLES: a shared library with the functions `begin`, `advance` and `unrest` over examples/evolve/poles.h. The settings are those of
neat-python's own example for XOR, with tanh for the poles. A line for each seed: seed, generations, evaluations, fitness.
"""
import ctypes
import random
import sys
import tempfile

import neat

SETTINGS = """
[NEAT]
fitness_criterion = max
fitness_threshold = {target}
pop_size = {population}
reset_on_extinction = False
no_fitness_termination = False

[DefaultGenome]
activation_default = {activation}
activation_mutate_rate = 0.0
activation_options = {activation}
aggregation_default = sum
aggregation_mutate_rate = 0.0
aggregation_options = sum
bias_init_mean = 0.0
bias_init_stdev = 1.0
bias_init_type = gaussian
bias_max_value = 30.0
bias_min_value = -30.0
bias_mutate_power = 0.5
bias_mutate_rate = 0.7
bias_replace_rate = 0.1
compatibility_disjoint_coefficient = 1.0
compatibility_weight_coefficient = 0.5
conn_add_prob = 0.5
conn_delete_prob = 0.5
enabled_default = True
enabled_mutate_rate = 0.01
feed_forward = {forward}
initial_connection = full_direct
node_add_prob = 0.2
node_delete_prob = 0.2
num_hidden = 0
num_inputs = {inputs}
num_outputs = 1
response_init_mean = 1.0
response_init_stdev = 0.0
response_init_type = gaussian
response_max_value = 30.0
response_min_value = -30.0
response_mutate_power = 0.0
response_mutate_rate = 0.0
response_replace_rate = 0.0
single_structural_mutation = False
structural_mutation_surer = default
time_constant_init_mean = 1.0
time_constant_init_stdev = 0.0
time_constant_init_type = gaussian
time_constant_replace_rate = 0.0
time_constant_mutate_rate = 0.0
time_constant_mutate_power = 0.0
time_constant_min_value = 0.1
time_constant_max_value = 10.0
weight_init_mean = 0.0
weight_init_stdev = 1.0
weight_init_type = gaussian
weight_max_value = 30
weight_min_value = -30
weight_mutate_power = 0.5
weight_mutate_rate = 0.8
weight_replace_rate = 0.1

[DefaultSpeciesSet]
compatibility_threshold = 3.0

[DefaultStagnation]
species_fitness_func = max
max_stagnation = 20
species_elitism = 2

[DefaultReproduction]
elitism = 2
survival_threshold = 0.2
min_species_size = 2
"""
STEPS = 100000


def xor(network, _):
    rows = (0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)
    return 4 - sum((network.activate(row[:2])[0] - row[2]) ** 2 for row in rows)


def poles(network, library):
    state, seen, steps = (ctypes.c_double * 6)(), (ctypes.c_double * 6)(), 0
    balanced = library.begin(state, seen)
    while steps < STEPS and balanced:
        balanced = library.advance(state, seen, ctypes.c_double(network.activate(seen)[0]))
        steps += 1
    return steps


def hidden(network, library):
    state, seen, steps, unrest = (ctypes.c_double * 6)(), (ctypes.c_double * 6)(), 0, [0.0] * 100
    balanced = library.begin(state, seen)
    while steps < STEPS and balanced:
        output = network.activate((seen[0], seen[2], seen[4]))[0]
        balanced = library.advance(state, seen, ctypes.c_double(output))
        if steps < 1000:
            unrest[steps % 100] = library.unrest(state)
        steps += 1
    if steps == STEPS:
        return STEPS
    return 0.1 * min(steps, 1000) / 1000 + (0.9 * 0.75 / sum(unrest) if steps >= 100 else 0)


def main():
    task, generations, population, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    library = ctypes.CDLL(path)
    library.unrest.restype = ctypes.c_double
    measure = {"xor": xor, "poles": poles, "hidden": hidden}[task]
    values = {"xor": dict(target=3.9, inputs=2, activation="sigmoid", forward=True),
              "poles": dict(target=STEPS, inputs=6, activation="tanh", forward=True),
              "hidden": dict(target=STEPS, inputs=3, activation="tanh", forward=False)}[task]
    network = neat.nn.FeedForwardNetwork if values["forward"] else neat.nn.RecurrentNetwork
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as settings:
        settings.write(SETTINGS.format(population=population, **values))
        settings.flush()
        for seed in map(int, sys.argv[5:]):
            random.seed(seed)
            config = neat.Config(neat.DefaultGenome, neat.DefaultReproduction, neat.DefaultSpeciesSet, neat.DefaultStagnation,
                                 settings.name)
            count = 0

            def score(genomes, c):
                nonlocal count
                for _, genome in genomes:
                    genome.fitness = measure(network.create(genome, c), library)
                    count += 1

            evolution = neat.Population(config)
            best = evolution.run(score, generations)
            print(seed, evolution.generation + (best.fitness >= values["target"]), count, best.fitness, sep="\t", flush=True)


main()
