"""Trains with and without the crosses that wdlrun init proposes, and prints test metrics as a table.

    python3 crosses.py WDLRUN DATA [SET…]

DATA holds adult/ (UCI), ml-latest-small/ (GroupLens), chicago-taxi/data.csv (TFX) and interop/ (FuxiCTR's tiny set).
The synthetic sets need none: planted (three pairs of small fields matter), added (no pair does), ids (two
pairs of large fields, of latent factors), smooth (one pair of small fields, of one factor, which embeddings
can learn), gen (wdlrun gen, 200,000 rows). Crosses that init leaves out after its training are in brackets;
"with" is then what they would have given."""
import bisect, csv, json, math, os, random, re, statistics, subprocess, sys, tempfile

WDLRUN, DATA = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else ''
SEEDS = (1, 2, 3)


def write(name, head, rows, third=3):
    """Writes NAME.csv and NAME_test.csv, every third row."""
    out = [csv.writer(open(f'{name}{kind}.csv', 'w')) for kind in ('', '_test')]
    for w in out: w.writerow(head)
    for i, row in enumerate(rows): out[i % third == 0].writerow(row)
    return f'{name}.csv', f'{name}_test.csv'


def movielens():
    films = {r['movieId']: r for r in csv.DictReader(open(f'{DATA}/ml-latest-small/movies.csv'))}
    year = lambda r: (re.search(r'\((\d{4})\)\s*$', films[r['movieId']]['title']) or ['', ''])[1]
    rows = csv.DictReader(open(f'{DATA}/ml-latest-small/ratings.csv'))
    return write('movielens', ['userId', 'movieId', 'year', 'genres', 'label'], ([r['userId'], r['movieId'], year(r), films[r['movieId']]['genres'], int(float(r['rating']) >= 4)] for r in rows), 5)


def taxi():
    rows = [r for r in csv.DictReader(open(f'{DATA}/chicago-taxi/data.csv')) if r['tips'] and r['fare']]
    head = [c for c in rows[0] if c != 'tips']
    return write('taxi', head + ['label'], ([r[c] for c in head] + [int(float(r['tips']) > .2 * float(r['fare']))] for r in rows))


def adult():
    names = 'age workclass fnlwgt education education_num marital_status occupation relationship race sex capital_gain capital_loss hours_per_week native_country label'
    for kind, path in (('', 'adult.data'), ('_test', 'adult.test')):
        lines = [l.strip().rstrip('.').split(', ') for l in open(f'{DATA}/adult/{path}')]
        csv.writer(open(f'adult{kind}.csv', 'w')).writerows([names.split()] + [l for l in lines if len(l) == 15])
    return 'adult.csv', 'adult_test.csv'


def interop():
    return tuple(f'{DATA}/interop/fuxictr_tiny_csv_{x}.csv' for x in ('train', 'test'))


def gen():
    for name, start, n in (('gen.csv', 0, 200000), ('gen_test.csv', 200000, 50000)):
        subprocess.run([WDLRUN, 'gen', '-rows', str(n), '-start', str(start), '-out', name], check=True, capture_output=True)
    return 'gen.csv', 'gen_test.csv'


def small(name, seed, pairs, n=60000):
    r, sizes = random.Random(seed), [30, 12, 50, 8, 20, 15, 100, 6, 10, 25, 40, 4]
    main = [[r.gauss(0, .5) for _ in range(s)] for s in sizes]
    both = {p: {} for p in pairs}
    def rows():
        for _ in range(n):
            x, a = [min(int(r.expovariate(3 / s)), s - 1) for s in sizes], r.gauss(0, 1)
            z = -1.5 + .4 * a + sum(main[j][v] for j, v in enumerate(x))
            for p, known in both.items(): z += known.setdefault((x[p[0]], x[p[1]]), r.gauss(0, .8))
            yield [f'v{v}' for v in x] + [f'{a:.4f}', int(r.random() < 1 / (1 + math.exp(-z)))]
    return write(name, [f'f{j}' for j in range(len(sizes))] + ['amount', 'label'], rows())


def smooth(seed):
    r, sizes = random.Random(seed), [20, 15, 30, 8, 12]
    main, factor = ([[r.gauss(0, sd) for _ in range(n)] for n in sizes] for sd in (.5, 1))
    def rows():
        for _ in range(60000):
            x = [min(int(r.expovariate(3 / n)), n - 1) for n in sizes]
            z = -1 + sum(m[v] for m, v in zip(main, x)) + .7 * factor[0][x[0]] * factor[1][x[1]]
            yield [f'v{v}' for v in x] + [int(r.random() < 1 / (1 + math.exp(-z)))]
    return write(f'smooth{seed}', ['a', 'b', 'c', 'd', 'e', 'label'], rows())


def ids(seed, n=45000):
    r, sizes = random.Random(77 * seed), dict(resource=3000, manager=2000, role=300, family=60, dept=150, title=200)
    def zipf(size):
        total, sums = 0, []
        for k in range(size): total += 1 / (k + 3); sums.append(total)
        return lambda: bisect.bisect(sums, r.random() * total)
    draw = {k: zipf(v) for k, v in sizes.items()}
    main = {k: [r.gauss(0, .5) for _ in range(v)] for k, v in sizes.items()}
    factors = {k: [[r.gauss(0, 1) for _ in range(3)] for _ in range(v)] for k, v in sizes.items()}
    def rows():
        for _ in range(n):
            x = {k: d() for k, d in draw.items()}
            if r.random() < .7: x['title'] = (7 * x['role'] + r.randrange(3)) % 200
            if r.random() < .8: x['family'] = x['role'] % 60
            z = 1.5 + sum(main[k][v] for k, v in x.items())
            for a, b, w in (('resource', 'role', .5), ('manager', 'dept', .4)):
                z += w * sum(p * q for p, q in zip(factors[a][x[a]], factors[b][x[b]]))
            yield [f'{k[0]}{v}' for k, v in x.items()] + [int(r.random() < 1 / (1 + math.exp(-z)))]
    return write(f'ids{seed}', list(sizes) + ['label'], rows())


SETS = {'Adult': adult, 'taxi': taxi, 'MovieLens': movielens, 'interop': interop, 'gen': gen}
for k in SEEDS:
    SETS[f'planted {k}'] = lambda k=k: small(f'planted{k}', k, [(0, 1), (2, 3), (4, 7)])
    SETS[f'added {k}'] = lambda k=k: small(f'added{k}', 10 + k, [])
    SETS[f'ids {k}'] = lambda k=k: ids(k)
    SETS[f'smooth {k}'] = lambda k=k: smooth(k)


def metrics(config, test):
    """Mean AUC and log-loss of the test file over seeds, and the seconds of one training."""
    got = []
    for seed in SEEDS:
        p = subprocess.run([WDLRUN, '-np', '1', 'train', '-config', config, '-set', f'train.seed={seed}', '-set', f'data.test=[{test}]', '--json'], capture_output=True, text=True)
        if p.returncode: return f'no training: {p.stderr.strip().splitlines()[-1]}'
        t = json.loads(p.stdout.splitlines()[-1])['test']
        got.append((t['auc'], t['logloss']))
    auc, loss = zip(*got)
    return f'{statistics.mean(auc):.4f} / {statistics.mean(loss):.4f}'


os.chdir(tempfile.mkdtemp())
print('| set | without: AUC / log-loss | with | crosses (gain in log-loss of the scan) |\n|---|---|---|---|')
for name in sys.argv[3:] or SETS:
    train, test = SETS[name]()
    text = subprocess.run([WDLRUN, 'init', '-data', train], check=True, capture_output=True, text=True).stdout
    found = re.search(r'\n(# )?crosses:\n((?:(?:# )?  - .*by.*\n)+)', text)
    open('without.yaml', 'w').write(text.replace(found[0], '\n') if found else text)
    open('with.yaml', 'w').write(text.replace(found[0], found[0].replace('# ', '', 1 + found[2].count('\n')) if found[1] else found[0]) if found else text)
    crosses = [(f'[{x}]' if left else x) for left, x in ((l, f'{of.replace(", ", " × ")} ({gain.lstrip("0")})') for l, of, gain in
               re.findall(r'(# )?  - \{of: \[(.*?)\]\}.*?by ([\d.]+)', found[2]))] if found else ['none']
    print('|', name, '|', metrics('without.yaml', test), '|', metrics('with.yaml', test) if found else '–', '|', ' · '.join(crosses), '|', flush=True)
