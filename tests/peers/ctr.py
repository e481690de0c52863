#!/usr/bin/env python3
"""ctr.py DATA [ROUNDS]: AUC and seconds of wdlrun.train(df), deepctr-torch's WDL and a Wide & Deep model of FuxiCTR.

    python3 -m venv venv && venv/bin/pip install wdlrun-*.whl pandas pyarrow scikit-learn torch deepctr-torch fuxictr
    venv/bin/python tests/peers/ctr.py DATA

DATA holds adult/ (UCI Adult) and interop/ (FuxiCTR's tiny set of 100 rows). All begin with the same DataFrames and end with
the AUC of the test rows; imports do not count. wdlrun encodes the columns as it proposes them; making the proposal, which trains some
models for a moment, is part of the first row and not of the second. The others get what their
tutorials do: categories as codes, numbers scaled to 0…1 (deepctr-torch's MinMaxScaler), a tenth of the rows held out,
early stopping with patience 2 and at most 20 epochs, batches of 256, Adam. All on one thread. The methods take
turns; the table has means over the rounds. ÷ is the CPU time of a method divided by that of the second row."""
import logging, os, resource, statistics, sys, tempfile, time, warnings
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
warnings.filterwarnings("ignore")
import numpy as np, pandas as pd, torch
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import LabelEncoder, MinMaxScaler
import wdlrun
from deepctr_torch.callbacks import EarlyStopping
from deepctr_torch.inputs import DenseFeat, SparseFeat, get_feature_names
from deepctr_torch.models import WDL
from fuxictr.features import FeatureMap
from fuxictr.pytorch.layers import FeatureEmbedding, LogisticRegression, MLP_Block
from fuxictr.pytorch.models import BaseModel

logging.disable(logging.CRITICAL)
torch.set_num_threads(1)
DATA, ROUNDS = os.path.abspath(sys.argv[1]), int((sys.argv + ["3"])[2])
BATCH, EPOCHS, DIM, HIDDEN = 256, 20, 8, (128, 64)


def adult():
    names = "age workclass fnlwgt education education_num marital_status occupation relationship race sex capital_gain capital_loss hours_per_week native_country label".split()
    read = lambda name, skip: pd.read_csv(f"{DATA}/adult/{name}", names=names, skipinitialspace=True, na_values="?", skiprows=skip)
    tables = [read("adult.data", 0), read("adult.test", 1)]
    return [t.assign(label=t["label"].str.startswith(">50K").astype(int)) for t in tables], "label"


def interop():
    return [pd.read_csv(f"{DATA}/interop/fuxictr_tiny_csv_{part}.csv") for part in ("train", "test")], "clk"


def columns(train, label):
    """Returns the categories and the numbers: a column of text or of few values is a category, except those that a name gives away as ids."""
    numbers = [c for c in train if c != label and pd.api.types.is_numeric_dtype(train[c]) and not c.endswith(("id", "brand", "customer", "level", "code"))]
    return [c for c in train if c != label and c not in numbers], numbers


def encoded(train, test, label):
    """Categories as codes from 1, 0 for an unknown one; numbers scaled."""
    cats, numbers = columns(train, label)
    out, sizes = [{}, {}], {}
    for c in cats:
        coder = LabelEncoder().fit(train[c].astype(str))
        codes = {v: i + 1 for i, v in enumerate(coder.classes_)}
        sizes[c] = len(codes) + 1
        for o, t in zip(out, (train, test)):
            o[c] = t[c].astype(str).map(codes).fillna(0).to_numpy(np.int64)
    if numbers:
        scaler = MinMaxScaler().fit(train[numbers].fillna(0))
        for o, t in zip(out, (train, test)):
            for c, x in zip(numbers, scaler.transform(t[numbers].fillna(0)).T):
                o[c] = x.astype(np.float32)
    return out, sizes, numbers


def ours(train, test, label, seed):
    with tempfile.TemporaryDirectory() as folder:
        run = wdlrun.train(train, label, out=folder, verbose=False, train__seed=seed)
        return roc_auc_score(test[label], run.predict(test.drop(columns=label)))


CONFIGS = {}  # by number of columns: the proposal, made once


def configured(train, test, label, seed):
    """wdlrun.train with the proposed configuration at hand, as the others have their lists of columns."""
    with tempfile.TemporaryDirectory() as folder:
        run = wdlrun.train(train, label, config=CONFIGS[len(train.columns)], out=folder, verbose=False, train__seed=seed)
        return roc_auc_score(test[label], run.predict(test.drop(columns=label)))


def deepctr(train, test, label, seed):
    (x, z), sizes, numbers = encoded(train, test, label)
    fields = [SparseFeat(c, n, DIM) for c, n in sizes.items()] + [DenseFeat(c, 1) for c in numbers]
    names = get_feature_names(fields)
    model = WDL(fields, fields, dnn_hidden_units=HIDDEN, device="cpu", seed=seed)
    model.compile("adam", "binary_crossentropy", metrics=["auc"])
    order = np.random.default_rng(seed).permutation(len(train))  # validation_split takes the last rows
    stop = EarlyStopping("val_auc", patience=2, mode="max")
    y = train[label].to_numpy()[order]
    held = y[int(len(y) * .9):]
    if len(set(held)) == 2:
        model.fit({c: x[c][order] for c in names}, y, batch_size=BATCH, epochs=EPOCHS, validation_split=.1, verbose=0, callbacks=[stop])
    else:  # no AUC without both classes
        model.compile("adam", "binary_crossentropy", metrics=[])
        model.fit({c: x[c][order] for c in names}, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    return roc_auc_score(test[label], model.predict({c: z[c] for c in names}, 4096)[:, 0])


class WideDeep(BaseModel):
    """Wide & Deep as FuxiCTR's model zoo builds it from its layers."""

    def __init__(self, feature_map, **kwargs):
        super().__init__(feature_map, gpu=-1, **kwargs)
        self.embedding = FeatureEmbedding(feature_map, DIM)
        self.wide = LogisticRegression(feature_map, use_bias=False)
        self.deep = MLP_Block(input_dim=DIM * feature_map.num_fields, output_dim=1, hidden_units=list(HIDDEN), hidden_activations="ReLU", output_activation=None)
        self.compile("adam", "binary_crossentropy", 1e-3)
        self.reset_parameters()

    def forward(self, inputs):
        x = self.get_inputs(inputs)
        return {"y_pred": self.output_activation(self.wide(x) + self.deep(self.embedding(x).flatten(start_dim=1)))}


class Batches:
    def __init__(self, x, rows, shuffle):
        self.x, self.rows, self.shuffle = {k: torch.as_tensor(v[rows]) for k, v in x.items()}, len(rows), shuffle

    def __len__(self): return -(-self.rows // BATCH)

    def __iter__(self):
        order = torch.randperm(self.rows) if self.shuffle else torch.arange(self.rows)
        for part in order.split(BATCH): yield {k: v[part] for k, v in self.x.items()}


def fuxi(train, test, label, seed):
    torch.manual_seed(seed)
    (x, z), sizes, numbers = encoded(train, test, label)
    fields = FeatureMap("set", ".")
    fields.labels, fields.num_fields = [label], len(sizes) + len(numbers)
    fields.features = {c: {"source": "", "type": "categorical", "padding_idx": None, "vocab_size": n} for c, n in sizes.items()} | {c: {"source": "", "type": "numeric"} for c in numbers}
    x[label], z[label] = (t[label].to_numpy(np.float32) for t in (train, test))
    order = np.random.default_rng(seed).permutation(len(train))
    held = len(train) // 10
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/set")
        one = len(set(x[label][order[:held]])) < 2
        if one:
            held = 0  # FuxiCTR needs validation rows: the training rows, whose loss ends the training
        model = WideDeep(fields, model_root=folder, verbose=0, metrics=["AUC"], monitor="AUC")
        model.fit(Batches(x, order[held:], True), EPOCHS, Batches(x, order[:held] if held else order, False))
        model.eval()
        with torch.no_grad():
            scores = np.concatenate([model(b)["y_pred"].numpy()[:, 0] for b in Batches(z, np.arange(len(test)), False)])
    return roc_auc_score(test[label], scores)


def cpu():
    """CPU seconds of this process and of those that it started: a busy machine changes them less than wall time."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


METHODS = {"wdlrun.train": ours, "wdlrun.train, config=": configured, "deepctr-torch WDL": deepctr, "FuxiCTR Wide & Deep": fuxi}
print("| set | method | AUC | s | CPU s | AUC − | CPU ÷ |\n|---|---|---|---|---|---|---|", flush=True)
for name, load in {"Adult": adult, "FuxiCTR tiny": interop}.items():
    (train, test), label = load()
    CONFIGS[len(train.columns)] = wdlrun.init(train, label)
    got, order = {m: [] for m in METHODS}, list(METHODS)
    for seed in range(1, ROUNDS + 1):
        for m in order:
            begin, used = time.perf_counter(), cpu()
            auc = METHODS[m](train.copy(), test.copy(), label, seed)
            got[m].append((auc, time.perf_counter() - begin, cpu() - used))
        order = order[1:] + order[:1]
    rows = {m: [statistics.mean(x) for x in zip(*all)] for m, all in got.items()}
    mine = rows["wdlrun.train, config="]
    for m, (auc, s, c) in rows.items():
        print(f"| {name} | {m} | {auc:.4f} | {s:.2f} | {c:.2f} | {mine[0] - auc:+.4f} | {c / mine[2]:.1f} |", flush=True)
