/* zt/train.h - training.
 *
 *   train/train.h    a program with a loss becomes one program that takes a step of training
 *   train/target_prop.h  target propagation in place of backpropagation
 *   train/fit.h      epochs, schedules, early stop, checkpoints
 *   train/samples.h  data sets from CSV, NDJSON or arrays
 *   train/score.h    how far predictions are from what was expected
 *   train/ensemble.h  several models on the same samples
 *   train/track.h     accuracy over a stream whose task changes
 *   train/compare.h   which training method is best
 *   train/cluster.h  groups of points: k-means, agglomerative clustering, silhouettes
 */
#ifndef ZT_PUBLIC_TRAIN_H
#define ZT_PUBLIC_TRAIN_H

#include "lib/train/train.h"
#include "lib/train/target_prop.h"
#include "lib/train/fit.h"
#include "lib/train/samples.h"
#include "lib/train/score.h"
#include "lib/train/ensemble.h"
#include "lib/train/compare.h"
#include "lib/train/track.h"
#include "lib/train/cluster.h"

#endif
