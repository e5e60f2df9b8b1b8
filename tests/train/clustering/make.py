#!/usr/bin/env python3
"""make.py - clusterings by SciPy and scikit-learn, which tests/train/cluster.c compares.

    pip install numpy scipy scikit-learn
    tests/train/clustering/make.py       (writes clustering.tar.gz beside it)

A case is NAME.json:
    points        [count][width] of f32
    linkage       "METHOD METRIC" -> SciPy's linkage matrix, [count - 1][4]
    cuts          list of {linkage, threshold or clusters, labels}
    silhouettes   list of {metric, labels, scores}
    kmeans        list of {clusters, inertia}: scikit-learn's best of 200 starts
"""
import gzip, io, json, os, tarfile

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_samples

HERE = os.path.dirname(os.path.abspath(__file__))
LINKAGES = [(method, metric) for method in ("single", "complete", "average", "ward") for metric in ("euclidean", "cosine")]


def blobs(rng, count, width, groups, spread):
    centres = rng.uniform(-10, 10, (groups, width))
    return (centres[rng.integers(0, groups, count)] + rng.normal(0, spread, (count, width))).astype(np.float32)


def ring(rng, count):
    angle = rng.uniform(0, 2 * np.pi, count)
    radius = np.where(np.arange(count) % 2, 1, 4) + rng.normal(0, 0.1, count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).astype(np.float32)


def make_case(rng, points):
    case = {"points": [[float(f"{v:.9g}") for v in row] for row in points], "linkage": {}, "cuts": [], "silhouettes": [], "kmeans": []}
    wide = points.astype(np.float64)
    for method, metric in LINKAGES:
        if (method, metric) == ("ward", "cosine"):
            continue
        name, tree = f"{method} {metric}", linkage(wide, method, metric)
        case["linkage"][name] = tree.tolist()
        middle = float((tree[-4, 2] + tree[-3, 2]) / 2)
        case["cuts"].append({"linkage": name, "threshold": middle, "labels": fcluster(tree, middle, "distance").tolist()})
        for clusters in (1, 3, len(points)):
            labels = fcluster(tree, clusters, "maxclust").tolist()
            case["cuts"].append({"linkage": name, "clusters": clusters, "labels": labels})
    for metric in ("euclidean", "cosine"):
        labels = rng.integers(0, 4, len(points))
        labels[0] = 4  # the only point of a cluster
        scores = silhouette_samples(wide, labels, metric=metric)
        case["silhouettes"].append({"metric": metric, "labels": labels.tolist(), "scores": [round(float(s), 12) for s in scores]})
    for clusters in (1, 2, 3, 5):
        inertia = KMeans(clusters, n_init=200, random_state=1, tol=0).fit(wide).inertia_
        case["kmeans"].append({"clusters": clusters, "inertia": inertia})
    return case


def main():
    rng = np.random.default_rng(43)
    sets = {
        "blobs-2": blobs(rng, 40, 2, 3, 1),
        "blobs-9": blobs(rng, 36, 9, 5, 2),
        "noise-17": rng.normal(0, 1, (30, 17)).astype(np.float32),
        "rings": ring(rng, 48),
    }
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, points in sorted(sets.items()):
            text = json.dumps(make_case(rng, points), separators=(",", ":")).encode()
            info = tarfile.TarInfo(f"{name}.json")
            info.size, info.mode = len(text), 0o644
            tar.addfile(info, io.BytesIO(text))
    with open(f"{HERE}/clustering.tar.gz", "wb") as f:
        f.write(gzip.compress(raw.getvalue(), 9, mtime=0))


if __name__ == "__main__":
    main()
