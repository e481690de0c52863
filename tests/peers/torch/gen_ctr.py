#!/usr/bin/env python3
"""Deterministic synthetic CTR data with a planted logistic model: the rows of package internal/bench/step.

All-integer (splitmix64, counter based), so any language reproduces the same bytes.
  gen_ctr.py --profile criteo  --start 0 --rows 1000000 --npz train.npz [--tsv train.tsv]
TSV is the Criteo layout: label \t I1..Ik \t C1..Cn (8 hex digits, empty = missing).
npz: ids int32 [N,F] (already offset_f + h%V_f), dense int32 [N,k] (-1 = missing), label uint8.
"""
import argparse, math, sys, time
import numpy as np

U = np.uint64
GOLD = 0x9E3779B97F4A7C15
M64 = (1 << 64) - 1
SEED_ROW, SEED_W, SEED_C, SEED_T, SEED_G = 0x5EED0001, 0x5EED0002, 0x5EED0003, 0x5EED0004, 0x5EED0005
MISSING = 0xFFFFFFFF
# Z[j] = round(2^24 * 2^(-0.1*j)), j=0..23 : octave masses of Zipf(1.1)
Z = [16777216, 15653696, 14605415, 13627334, 12714752, 11863283, 11068835, 10327588,
     9635980, 8990687, 8388608, 7826848, 7302707, 6813667, 6357376, 5931642,
     5534417, 5163794, 4817990, 4495344, 4194304, 3913424, 3651354, 3406833]

PROFILES = {
    'criteo': dict(vocab=[1460, 583, 400000, 300000, 305, 24, 12517, 633, 3, 93145, 5683, 350000, 3194, 27,
                          14992, 250000, 10, 5652, 2173, 4, 300000, 18, 15, 159457, 105, 100000],
                   ndense=13, A=90, B=130, C=56, pairs=8, bias=-98304, cat_missing=True),
    'meituan': dict(vocab=[v for v in (10, 100, 1000, 10000, 88890, 900000) for _ in range(10)],
                    ndense=0, A=60, B=120, C=0, pairs=8, bias=-90112, cat_missing=False),
}


def imix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
    return z ^ (z >> 31)


def iH(seed, i):
    return imix((seed + (i + 1) * GOLD) & M64)


def H(seed, i):
    """i: uint64 array. (i+1)-th output of splitmix64 seeded with seed."""
    with np.errstate(over='ignore'):
        z = (i + U(1)) * U(GOLD) + U(seed)
        z = (z ^ (z >> U(30))) * U(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U(27))) * U(0x94D049BB133111EB)
        return z ^ (z >> U(31))


def lanes(h):
    """sum of the four 16-bit lanes minus 131070, int64"""
    m = U(0xFFFF)
    return ((h & m) + ((h >> U(16)) & m) + ((h >> U(32)) & m) + (h >> U(48))).astype(np.int64) - 131070


def ilanes(h):
    return (h & 0xFFFF) + ((h >> 16) & 0xFFFF) + ((h >> 32) & 0xFFFF) + (h >> 48) - 131070


def fmix32(h):
    h = h.astype(np.uint32)
    with np.errstate(over='ignore'):
        h ^= h >> np.uint32(16); h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13); h *= np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    return h


def octaves(V):
    cum, lo, wid, c, j = [], [], [], 0, 0
    while (1 << j) <= V:
        l = (1 << j) - 1
        w = min((1 << (j + 1)) - 1, V) - l
        c += Z[j] * w >> j
        cum.append(c); lo.append(l); wid.append(w); j += 1
    return np.array(cum, U), np.array(lo, U), np.array(wid, U)


def sigmoid_table():
    return np.array([math.floor(2.0 ** 32 / (1.0 + math.exp(-(i - 512 + 0.5) / 64.0)) + 0.5) for i in range(1024)], U)


def pair(p, vocab):
    """p-th planted interaction: only fields with at most 128 values take part"""
    sm = [f for f, v in enumerate(vocab) if v <= 128]
    k = len(sm)
    i, j = (p * 7) % k, (p * 11 + 3) % k
    if i == j: j = (j + 1) % k
    return sm[i], sm[j]


def generate(prof, start, n):
    P = PROFILES[prof]
    vocab, nd = P['vocab'], P['ndense']
    nf = len(vocab)
    off = np.concatenate([[0], np.cumsum(vocab)[:-1]]).astype(np.int64)
    base = (np.arange(start, start + n, dtype=np.uint64)) * U(256)
    ids = np.empty((n, nf), np.int32); tok = np.empty((n, nf), np.uint32); miss = np.zeros((n, nf), bool)
    cls = [None] * nf
    S = np.full(n, P['bias'], np.int64)
    for f, V in enumerate(vocab):
        r = H(SEED_ROW, base + U(f))
        cum, lo, wid = octaves(V)
        t = ((r >> U(32)) * U(int(cum[-1]))) >> U(32)
        j = np.searchsorted(cum, t, side='right')
        rank = lo[j] + (((r & U(0xFFFFFFFF)) * wid[j]) >> U(32))
        if P['cat_missing'] and f % 5 == 4:
            miss[:, f] = (H(SEED_ROW, base + U(64 + f)) & U(15)) == 0
            rank = np.where(miss[:, f], U(MISSING), rank)
        h = fmix32((rank + U(f * 0x9E3779B1 & 0xFFFFFFFF)) & U(0xFFFFFFFF))
        tok[:, f] = h
        ids[:, f] = off[f] + np.where(miss[:, f], 0, (h.astype(np.uint64) % U(V)).astype(np.int64))
        key = U(f << 32) + rank
        S += (lanes(H(SEED_W, key)) * P['A']) >> 8
        cls[f] = (H(SEED_C, key) >> U(62)).astype(np.int64)
    for p in range(P['pairs']):
        f, g = pair(p, vocab)
        T = np.array([(ilanes(iH(SEED_T, p * 16 + c)) * P['B']) >> 8 for c in range(16)], np.int64)
        S += T[cls[f] * 4 + cls[g]]
    dense = np.empty((n, nd), np.int32)
    for j in range(nd):
        d = H(SEED_ROW, base + U(128 + j))
        NB = 2 + j
        b = (((d >> U(8)) & U(255)) * U(NB)) >> U(8)
        x = ((d >> U(32)) << b) >> U(32)
        m = ((d & U(31)) == 0) if j % 3 == 2 else np.zeros(n, bool)
        bl = np.zeros(n, np.int64)                       # bit length of x
        for k in range(NB):
            bl += (x >> U(k)) != 0
        G = (ilanes(iH(SEED_G, j)) * P['C']) >> 8
        v = np.abs(2 * bl - NB) if j % 2 == 1 else 2 * bl - NB
        S += np.where(m, 0, (G * v) >> 3)
        dense[:, j] = np.where(m, -1, x.astype(np.int64))
    ST = sigmoid_table()
    idx = np.clip((S >> 10) + 512, 0, 1023)
    thr = ST[idx]
    y = ((H(SEED_ROW, base + U(255)) >> U(32)) < thr).astype(np.uint8)
    return ids, tok, miss, dense, y, thr.astype(np.float64) / 2.0 ** 32


def write_tsv(fh, tok, miss, dense, y):
    hexs = np.char.mod('%08x', tok)
    hexs = np.where(miss, '', hexs)
    ds = np.where(dense < 0, '', dense.astype('U11'))
    for i in range(len(y)):
        fh.write('\t'.join([str(int(y[i])), *ds[i], *hexs[i]]) + '\n')


if __name__ == '__main__':
    ap = argparse.ArgumentParser()
    ap.add_argument('--profile', default='criteo', choices=list(PROFILES))
    ap.add_argument('--start', type=int, default=0)
    ap.add_argument('--rows', type=int, default=1000)
    ap.add_argument('--npz'); ap.add_argument('--tsv')
    ap.add_argument('--chunk', type=int, default=100000)
    ap.add_argument('--stats', action='store_true')
    a = ap.parse_args()
    st = sigmoid_table()
    assert int(st.sum()) == 2199023255552, int(st.sum())
    t0 = time.time()
    I, D, Y, PR = [], [], [], []
    fh = open(a.tsv, 'w', newline='') if a.tsv else None
    for s in range(0, a.rows, a.chunk):
        n = min(a.chunk, a.rows - s)
        ids, tok, miss, dense, y, pr = generate(a.profile, a.start + s, n)
        if fh: write_tsv(fh, tok, miss, dense, y)
        I.append(ids); D.append(dense); Y.append(y); PR.append(pr)
    if fh: fh.close()
    ids, dense, y, pr = (np.concatenate(v) for v in (I, D, Y, PR))
    if a.npz: np.savez(a.npz, ids=ids, dense=dense, label=y, p=pr.astype(np.float32), vocab=np.array(PROFILES[a.profile]['vocab'], np.int64))
    if a.stats:
        from sklearn.metrics import roc_auc_score, log_loss
        lg = np.log(pr / (1 - pr))
        print('rows %d rate %.4f logit mean %.3f std %.3f Bayes AUC %.5f Bayes logloss %.5f entropy(rate) %.5f clipped %.5f' % (
            len(y), y.mean(), lg.mean(), lg.std(), roc_auc_score(y, pr), log_loss(y, pr), log_loss(y, np.full(len(y), y.mean())), ((lg > 7.9) | (lg < -7.9)).mean()))
        for B in (512, 1024, 2048, 4096):
            k = min(len(ids) // B, 20)
            u = [len(np.unique(ids[i * B:(i + 1) * B])) for i in range(k)]
            print('batch %d: ids %d unique %.0f (%.1f%%)' % (B, B * ids.shape[1], np.mean(u), 100 * np.mean(u) / (B * ids.shape[1])))
    print('gen %.1fs' % (time.time() - t0), file=sys.stderr)
