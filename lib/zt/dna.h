/* zt/dna.h - what models are made of.
 *
 *   dna/dna.h      layers and their signatures; models compared, and a child of two
 *   dna/merge.h    several models of one shape made into one, by a recipe
 *   dna/lora.h     adapters: read, applied, extracted
 *   dna/adapted.h  a model with adapters, as a checkpoint
 *   dna/moe.h      a mixture of experts made of models of one shape
 *   dna/transplant.h  a model with the tokenizer of another
 *   dna/evolve.h   populations: which members become parents of the next generation
 *   dna/recipe_genome.h  merge recipes whose numbers evolve
 */
#ifndef ZT_PUBLIC_DNA_H
#define ZT_PUBLIC_DNA_H

#include "lib/dna/dna.h"
#include "lib/dna/merge.h"
#include "lib/dna/lora.h"
#include "lib/dna/adapted.h"
#include "lib/dna/moe.h"
#include "lib/dna/transplant.h"
#include "lib/dna/evolve.h"
#include "lib/dna/recipe_genome.h"

#endif
