"""A small shop: shows items, asks the server for their scores, and sends impressions and clicks.

    python3 events.py SECONDS [RATE [BROKER]]

Every half second it moves a file into shown/ and one into clicks/. With a BROKER (HOST:PORT), it writes each event to the
topic shown or clicks, which it creates, with the topic samples; this needs confluent-kafka. Users click on the items that
they like, up to three seconds later. After a third of the time, the new item "hot" is shown, which everybody likes.

Five times a second it shows an item that no user has seen, once. The event has changed the score of that item when it
differs from the score of an item that is never shown. With no SECONDS left, it marks the ends of both folders."""
import http.client, json, math, os, random, sys, threading, time

SECONDS, RATE, BROKER = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200, sys.argv[3] if len(sys.argv) > 3 else ''
TICK = .05 if BROKER else .5


def likes(user, item):
    return .6 if item == 'hot' else .3 if item[0] == 'i' and (user + int(item[1:])) % 7 == 0 else .05


class Folders:
    def __init__(self):
        for folder in ('shown', 'clicks'): os.makedirs(folder, exist_ok=True)

    def send(self, folder, records):
        path = f'{folder}/{time.time_ns()}.json'
        with open(path + '.part', 'w') as out: out.writelines(json.dumps(r) + '\n' for r in records)
        os.rename(path + '.part', path)

    def end(self):
        for folder in ('shown', 'clicks'): open(f'{folder}/_SUCCESS', 'w').close()


class Topics:
    def __init__(self):
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic
        wanted = [NewTopic(t, num_partitions=n) for t, n in (('shown', 2), ('clicks', 2), ('samples', 1))]
        admin = AdminClient({'bootstrap.servers': BROKER})
        for made in admin.create_topics(wanted).values():
            if made.exception() and 'ALREADY_EXISTS' not in str(made.exception()): raise made.exception()
        self.producer = Producer({'bootstrap.servers': BROKER, 'linger.ms': 5, 'enable.idempotence': True})

    def send(self, topic, records):
        for r in records: self.producer.produce(topic, json.dumps(r))
        self.producer.poll(0)

    def end(self):
        self.producer.flush()


class Scores(threading.Thread):
    """Asks for scores until it is stopped, and measures how long events take."""

    def __init__(self):
        super().__init__(daemon=True)
        self.fresh, self.seconds, self.asked, self.failed = {}, [], 0, 0  # fresh: the time of each item that was shown once
        self.hot = self.first = self.clicked = None
        self.connection, self.stopped = http.client.HTTPConnection('127.0.0.1', 8501, timeout=5), False

    def score(self, items):
        rows = [{'user': 'u1', 'item': i, 'hour': '0'} for i in items]
        try:
            self.connection.request('POST', '/v1/models/ctr:predict', json.dumps({'instances': rows}))
            answer = self.connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            return None
        if answer.status != 200: return None
        return [p['score'] if isinstance(p, dict) else p for p in json.loads(body)['predictions']]

    def run(self):
        while not self.stopped:
            items = list(self.fresh.copy())
            scores = self.score(['never', 'hot'] + items)
            now = time.time()
            self.asked, self.failed = self.asked + (scores is not None or self.asked > 0), self.failed + (scores is None and self.asked > 0)
            if scores:
                for item, s in zip(items, scores[2:]):
                    if s != scores[0]: self.seconds.append(now - self.fresh.pop(item))
                if self.clicked and self.hot is None:
                    self.first = self.first or scores[1]
                    if scores[1] > 1.5 * self.first:
                        self.hot = now - self.clicked
                        print(f'events: the score of the item "hot" is {scores[1]:.3f}, {self.hot:.1f} s after its first click, with {self.first:.3f}', flush=True)
            time.sleep(.02)

    def report(self):
        all = sorted(self.seconds)
        if all:
            at = lambda share: all[min(len(all) - 1, math.ceil(share * len(all)))]
            print(f'events: an event changed the score of its item after {at(.5):.2f} s (median), {at(.99):.2f} s (99 %), of {len(all)} items; {len(self.fresh)} have not changed')
        print(f'events: {self.asked} requests, {self.failed} failed', flush=True)


def main():
    r, begin, n, pending, new = random.Random(), time.time(), 0, [], 0
    out, scores = Topics() if BROKER else Folders(), Scores()
    scores.start()
    hot_requests = set()
    step = begin
    while step < begin + SECONDS:
        shown = []
        for _ in range(int(RATE * (step + TICK - begin)) - n):
            now, user = time.time(), r.randrange(500)
            item = f'i{r.randrange(300)}'
            if now > begin + SECONDS / 3 and r.random() < .05: item = 'hot'
            if now > begin + SECONDS / 6 and new < 5 * (now - begin - SECONDS / 6) and scores.asked:
                new += 1
                item = f'new{int(begin)}-{new}'
                if step < begin + SECONDS - 10: scores.fresh[item] = now
            n += 1
            request = f'{int(begin)}-{n}'
            shown.append({'request': request, 'time': round(now * 1000), 'user': f'u{user}', 'item': item, 'hour': time.gmtime(now).tm_hour})
            if r.random() < likes(user, item):
                pending.append((now + 3 * r.random() ** 2, request))
                if item == 'hot': hot_requests.add(request)
        out.send('shown', shown)
        done, pending = [p for p in pending if p[0] <= time.time()], [p for p in pending if p[0] > time.time()]
        scores.clicked = scores.clicked or min((at for at, q in done if q in hot_requests), default=None)
        out.send('clicks', [{'request': q, 'time': round(at * 1000)} for at, q in done])
        step += TICK
        time.sleep(max(0, step - time.time()))
    time.sleep(3)
    out.send('clicks', [{'request': q, 'time': round(at * 1000)} for at, q in pending])
    out.end()
    scores.stopped = True
    scores.join()
    scores.report()
    print(f'events: {n} impressions', flush=True)


main()
