#!/usr/bin/env python3
"""onnx.py ROUNDS KEYS MODEL…: milliseconds of a request of 100 rows in onnxruntime (PyPI), on one thread, the models
by turns: median of the rounds, each the median of one second. MODEL is a directory of wdlrun export -format onnx,
KEYS the output of wdlrun predict -keys on at least 100 rows. Inputs of numbers get random counts. The ratio is that
of the first model to each other one, whose outputs must not differ."""
import csv, sys, time
import numpy, onnxruntime

rounds, rows, models = int(sys.argv[1]), list(csv.DictReader(open(sys.argv[2])))[:100], sys.argv[3:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
random = numpy.random.default_rng(1)
counts, runs = {}, {}
for m in models:
    session, feed = onnxruntime.InferenceSession(m + '/model.onnx', options), {}
    for i in session.get_inputs():
        if i.name in rows[0]:
            feed[i.name] = numpy.array([int(r[i.name]) for r in rows])
        else:
            feed[i.name] = counts.setdefault(i.name, numpy.floor(random.exponential(20, len(rows))))
    runs[m] = (session, feed)
scores = [s.run(['score'], f)[0] for s, f in runs.values()]
times = {m: [] for m in models}
for _ in range(rounds):
    for m, (session, feed) in runs.items():
        end, took = time.perf_counter() + 1, []
        while time.perf_counter() < end:
            begin = time.perf_counter()
            session.run(None, feed)
            took.append(time.perf_counter() - begin)
        times[m].append(1e3 * numpy.median(took))
for m, score in zip(models, scores):
    middle = numpy.median(times[m])
    print(f'{m}: {middle:.3f} ms, ratio {numpy.median(times[models[0]]) / middle:.2f}, difference {abs(score - scores[0]).max():.1g}')
