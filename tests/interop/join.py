"""Joins the same events with Spark Structured Streaming (examples/join/spark.py) and with wdlrun join, and
compares the samples. Needs pyspark 4.3 and Java 17.

    python3 join.py WDLRUN

The events have duplicates, feedback out of order, before its impression, after the window, repeated and without an impression."""
import glob, json, os, random, subprocess, sys, tempfile

WDLRUN = os.path.abspath(sys.argv[1])
SPARK = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../examples/join/spark.py')
MINUTE, FILES = 60_000, 12


def events():
    """Returns impressions and feedback in the order of arrival: of their times, disturbed by less than two minutes."""
    r, shown, clicks = random.Random(5), [], []
    start = 1_700_000_000_000
    for n in range(4000):
        at = start + n * 3000 + r.randrange(3000)  # 200 minutes
        impression = {'request': f'r{n}', 'item': f'i{r.randrange(50)}', 'price': r.randrange(1000) / 8, 'time': at}
        shown += [impression] * (1 + (r.random() < .05))
        if r.random() < .3:
            first = at + r.choice([r.randrange(60_000), r.randrange(30 * MINUTE), 30 * MINUTE, 30 * MINUTE + 1 + r.randrange(20 * MINUTE), -1 - r.randrange(60_000)])
            clicks += [{'request': f'r{n}', 'time': first}] + [{'request': f'r{n}', 'time': first}] * (r.random() < .2)
        if r.random() < .02: clicks.append({'request': f'nothing{n}', 'time': at})
    late = lambda e: e['time'] + r.randrange(60_000)
    shown, clicks = (sorted(all, key=late) for all in (shown, clicks))
    # Spark writes a sample when later records have moved its watermark.
    for k in range(3):
        for all in (shown, clicks): all.append({'request': f'end{k}', 'time': start + (k + 10) * 1000 * MINUTE})
    return shown, clicks


def write(folder, all):
    """Writes the events to files of about a twelfth each, the last of them with the end."""
    os.mkdir(folder)
    size = len(all) // FILES + 1
    parts = [all[:-3][i:i + size] for i in range(0, len(all) - 3, size)] + [[e] for e in all[-3:]]
    for i, part in enumerate(parts):
        path = f'{folder}/{i:03}.json'
        with open(path, 'w') as out: out.writelines(json.dumps(e) + '\n' for e in part)
        os.utime(path, (1e9 + i, 1e9 + i))  # Spark reads files in the order of their times


def samples(pattern):
    lines = [json.loads(line) for name in glob.glob(pattern) for line in open(name)]
    lines = [s for s in lines if not s['request'].startswith('end')]
    by = {s['request']: s for s in lines}
    assert len(by) == len(lines), f'{pattern}: {len(lines)} samples of {len(by)} impressions'
    return by


def main():
    shown, clicks = events()
    want = {}
    for e in shown: want.setdefault(e['request'], {**e, 'label': 0})
    for c in clicks:
        s = want.get(c['request'])
        if s and s['time'] <= c['time'] <= s['time'] + 30 * MINUTE: s['label'] = 1
    want = {k: s for k, s in want.items() if not k.startswith('end')}
    with tempfile.TemporaryDirectory() as dir:
        os.chdir(dir)
        write('shown', shown)
        write('clicks', clicks)
        subprocess.run([WDLRUN, 'join', '-impressions', 'shown', '-feedback', 'clicks', '-out', 'ours', '-key', 'request', '-window', '30m', '-delay', '2m', '-poll', '10ms'], check=True)
        subprocess.run([sys.executable, SPARK, 'shown', 'clicks', 'spark', 'checkpoint'], check=True, stdout=subprocess.DEVNULL, stderr=None if os.environ.get('VERBOSE') else subprocess.DEVNULL)
        ours, spark = samples('ours/*.jsonl'), samples('spark/*.json')
    for name, got in ('the plain join', want), ('Spark', spark):
        other = [k for k in ours.keys() | got.keys() if ours.get(k) != got.get(k)]
        for k in other[:5]: print(f'{k}: wdlrun {ours.get(k)}, {name} {got.get(k)}')
        if other: sys.exit(f'{len(other)} of {len(got)} samples of {name} differ')
    print(f'{len(ours)} samples, {sum(s["label"] for s in ours.values())} with feedback: wdlrun, Spark and a plain join agree')


main()
