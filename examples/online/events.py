"""A small shop: shows items, scores them with the server if it answers, and logs impressions and clicks.

    python3 events.py SECONDS [RATE]

Every half second it moves a file into shown/ and one into clicks/. Users click on the items that they like,
up to three seconds later. After a third of the time, the new item "hot" is shown, which everybody likes. With no SECONDS
left, it marks the ends of both folders."""
import json, math, os, random, sys, time, urllib.request

SECONDS, RATE = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200
SERVER = 'http://127.0.0.1:8501/v1/models/ctr:predict'


def likes(user, item):
    return .6 if item == 'hot' else .3 if (user + int(item[1:])) % 7 == 0 else .05


def move(folder, name, records):
    path = f'{folder}/{name}'
    with open(path + '.part', 'w') as out: out.writelines(json.dumps(r) + '\n' for r in records)
    os.rename(path + '.part', path)


def score(rows):
    body = json.dumps({'instances': [{k: str(r[k]) for k in ('user', 'item', 'hour')} for r in rows]}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(SERVER, body), timeout=2) as answer:
            return [p['score'] if isinstance(p, dict) else p for p in json.load(answer)['predictions']]
    except OSError:
        return None  # no version yet


def main():
    r, begin, n, pending = random.Random(), time.time(), 0, []
    for folder in ('shown', 'clicks'): os.makedirs(folder, exist_ok=True)
    born = hot = first = clicked = None
    new_requests = set()
    while time.time() < begin + SECONDS:
        step, shown = time.time(), []
        for _ in range(RATE // 2):
            now, user = time.time(), r.randrange(500)
            new = now > begin + SECONDS / 3 and r.random() < .05
            item = 'hot' if new else f'i{r.randrange(300)}'
            n += 1
            request = f'{int(begin)}-{n}'
            shown.append({'request': request, 'time': round(now * 1000), 'user': f'u{user}', 'item': item, 'hour': time.gmtime(now).tm_hour})
            if r.random() < likes(user, item): pending.append((now + 3 * r.random() ** 2, request))
            if new: new_requests.add(request)
            if new and born is None: born = now
        move('shown', f'{int(step * 1000)}.json', shown)
        done = [p for p in pending if p[0] <= time.time()]
        pending = [p for p in pending if p[0] > time.time()]
        clicked = clicked or min((at for at, q in done if q in new_requests), default=None)
        move('clicks', f'{int(step * 1000)}.json', [{'request': q, 'time': round(at * 1000)} for at, q in done])
        scores = score(shown[:10] + [{'user': 'u1', 'item': 'hot', 'hour': time.gmtime().tm_hour}])
        if clicked and hot is None and scores:
            first = first or scores[-1]
            if scores[-1] > 1.5 * first:
                hot = time.time() - clicked
                print(f'events: the score of the item "hot" is {scores[-1]:.3f}, {hot:.1f} s after its first click, with {first:.3f}', flush=True)
        time.sleep(max(0, step + .5 - time.time()))
    time.sleep(3)
    move('clicks', f'{int(time.time() * 1000)}.json', [{'request': q, 'time': round(at * 1000)} for at, q in pending])
    for folder in ('shown', 'clicks'): open(f'{folder}/_SUCCESS', 'w').close()
    print(f'events: {n} impressions', flush=True)


main()
