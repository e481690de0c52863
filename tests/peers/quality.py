#!/usr/bin/env python3
"""quality.py WDLRUN DATA [SET…]: AUC, log-loss and CPU seconds of a newcomer's model and of four peers on the same test rows.

    python3 -m venv venv && venv/bin/pip install numpy scikit-learn xgboost lightgbm
    CGO_ENABLED=0 go build -o wdlrun ./cmd/wdlrun
    venv/bin/python tests/peers/quality.py wdlrun DATA

DATA holds adult/ (UCI), chicago-taxi/data.csv (TFX) and ml-latest-small/ (GroupLens). wdlrun: init, then train and eval,
unchanged, on one rank. Its seconds include init, with its short trainings, and the start of processes. Peers get the
same rows and fields. A field of numbers is a number; any other value is a category, or, for logistic regression, one
indicator per value, next to the standardised numbers. Trees stop early on a tenth of the training rows, as wdlrun
does, on one thread; otherwise their defaults hold. Each is a mean of three seeds. The order of the methods rotates.
Rows with a value that training has not seen have no category."""
import csv, json, os, re, resource, statistics, subprocess, sys, tempfile
os.environ['OMP_NUM_THREADS'] = '1' # before the libraries start their threads
import numpy as np
import lightgbm, sklearn, xgboost
from scipy.sparse import hstack, csr_matrix
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder, StandardScaler

WDLRUN, DATA, SEEDS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), (1, 2, 3)


def write(name, head, rows, third):
    out = {kind: csv.writer(open(f'{name}{kind}.csv', 'w')) for kind in ('', '_test')}
    for w in out.values(): w.writerow(head)
    for i, row in enumerate(rows): out['_test' if i % third == 0 else ''].writerow(row)


def adult():
    names = 'age workclass fnlwgt education education_num marital_status occupation relationship race sex capital_gain capital_loss hours_per_week native_country label'
    for kind, path in (('', 'adult.data'), ('_test', 'adult.test')):
        lines = [l.strip().rstrip('.').split(', ') for l in open(f'{DATA}/adult/{path}')]
        csv.writer(open(f'Adult{kind}.csv', 'w')).writerows([names.split()] + [l[:14] + [int(l[14] == '>50K')] for l in lines if len(l) == 15])


def taxi():
    rows = [r for r in csv.DictReader(open(f'{DATA}/chicago-taxi/data.csv')) if r['tips'] and r['fare']]
    head = [c for c in rows[0] if c != 'tips']
    write('taxi', head + ['label'], ([r[c] for c in head] + [int(float(r['tips']) > .2 * float(r['fare']))] for r in rows), 3)


def movielens():
    films = {r['movieId']: r for r in csv.DictReader(open(f'{DATA}/ml-latest-small/movies.csv'))}
    year = lambda r: (re.search(r'\((\d{4})\)\s*$', films[r['movieId']]['title']) or ['', ''])[1]
    rows = csv.DictReader(open(f'{DATA}/ml-latest-small/ratings.csv'))
    write('MovieLens', ['userId', 'movieId', 'year', 'genres', 'label'], ([r['userId'], r['movieId'], year(r), films[r['movieId']]['genres'], int(float(r['rating']) >= 4)] for r in rows), 5)


def number(values):
    """The numbers of a column, nan where one is missing; None if it has other values."""
    try: return np.array([float(v) if v else np.nan for v in values])
    except ValueError: return None


def load(name):
    """Numbers and codes of categories of the training and the test rows, and the labels."""
    parts = [list(csv.DictReader(open(f'{name}{kind}.csv'))) for kind in ('', '_test')]
    numbers, codes = ([], []), ([], [])
    for field in [f for f in parts[0][0] if f != 'label']:
        columns = [[r[field] for r in part] for part in parts]
        as_numbers = [None if field.endswith('Id') else number(c) for c in columns]
        code = {v: i for i, v in enumerate(sorted(set(columns[0])))}
        for k in range(2):
            if as_numbers[0] is not None and as_numbers[1] is not None: numbers[k].append(as_numbers[k])
            else: codes[k].append(np.array([code.get(v, -1) for v in columns[k]]))
    pack = lambda part, columns: np.stack(columns, 1) if columns else np.zeros((len(part), 0))
    return [(pack(p, n), pack(p, c), np.array([int(r['label']) for r in p])) for p, n, c in zip(parts, numbers, codes)]


def ours(name, train, test, seed):
    if os.path.exists(f'{name}.yaml'): os.remove(f'{name}.yaml')
    run = lambda *a: subprocess.run([WDLRUN, *a], check=True, capture_output=True, text=True).stdout
    run('init', '-data', f'{name}.csv', '-out', f'{name}.yaml')
    trained = json.loads(run('-np', '1', 'train', '-config', f'{name}.yaml', '-set', f'train.seed={seed}', '--json').splitlines()[-1])
    m = json.loads(run('-np', '1', 'eval', '-resume', trained['run_dir'], '-data', f'{name}_test.csv', '--json').splitlines()[-1])
    m = m.get('test', m)
    return m['auc'], m['logloss']


def scores(model, x, y): return (lambda p: (roc_auc_score(y, p), log_loss(y, p)))(model.predict_proba(x)[:, 1])


def logistic(name, train, test, seed):
    scale, one = StandardScaler(), OneHotEncoder(handle_unknown='ignore')
    def inputs(part, fit):
        n, c = np.nan_to_num(part[0]), part[1]
        if fit: scale.fit(n) if n.shape[1] else None; one.fit(c) if c.shape[1] else None
        return hstack([csr_matrix(scale.transform(n))] * (n.shape[1] > 0) + [one.transform(c)] * (c.shape[1] > 0)).tocsr()
    x = inputs(train, True)
    return scores(LogisticRegression(max_iter=1000).fit(x, train[2]), inputs(test, False), test[2])


def hist(name, train, test, seed):
    # it has at most 255 categories of a field: a field of more is a number, its code
    few = [j for j in range(train[1].shape[1]) if train[1][:, j].max() < 255]
    x = lambda p: np.hstack([p[0], np.where(p[1] < 0, np.nan, p[1])])
    m = HistGradientBoostingClassifier(categorical_features=[train[0].shape[1] + j for j in few], early_stopping=True, random_state=seed)
    return scores(m.fit(x(train), train[2]), x(test), test[2])


def boosted(name):
    """Trees that stop early on a tenth of the rows."""
    def run(_, train, test, seed):
        import pandas
        frame = lambda p: pandas.DataFrame({f'n{j}': p[0][:, j] for j in range(p[0].shape[1])} | {f'c{j}': pandas.Categorical(p[1][:, j], range(int(train[1][:, j].max()) + 1)) for j in range(p[1].shape[1])})
        x, y, t = frame(train), train[2], frame(test)
        a, b = train_test_split(np.arange(len(y)), test_size=.1, random_state=seed, stratify=y)
        if name == 'XGBoost':
            m = xgboost.XGBClassifier(n_estimators=1000, early_stopping_rounds=10, enable_categorical=True, n_jobs=1, random_state=seed, eval_metric='logloss')
            m.fit(x.iloc[a], y[a], eval_set=[(x.iloc[b], y[b])], verbose=False)
        else:
            m = lightgbm.LGBMClassifier(n_estimators=1000, n_jobs=1, random_state=seed, verbose=-1)
            m.fit(x.iloc[a], y[a], eval_set=[(x.iloc[b], y[b])], callbacks=[lightgbm.early_stopping(10, verbose=False)])
        return scores(m, t, test[2])
    return run


def cpu(): return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


METHODS = {'wdlrun': ours, 'logistic regression': logistic, 'HistGradientBoosting': hist, 'XGBoost': boosted('XGBoost'), 'LightGBM': boosted('LightGBM')}
SETS = {'Adult': adult, 'taxi': taxi, 'MovieLens': movielens}

os.chdir(tempfile.mkdtemp())
print(f'scikit-learn {sklearn.__version__}, XGBoost {xgboost.__version__}, LightGBM {lightgbm.__version__}\n\n| set | method | AUC | log-loss | CPU s |\n|---|---|---|---|---|', flush=True)
for name in sys.argv[3:] or SETS:
    SETS[name]()
    train, test = load(name)
    got, order = {m: [] for m in METHODS}, list(METHODS)
    for seed in SEEDS:
        for m in order:
            begin = cpu()
            auc, loss = METHODS[m](name, train, test, seed)
            got[m].append((auc, loss, cpu() - begin))
        order = order[1:] + order[:1]
    for m, all in got.items():
        auc, loss, s = (statistics.mean(x) for x in zip(*all))
        print(f'| {name} | {m} | {auc:.4f} | {loss:.4f} | {s:.1f} |', flush=True)
