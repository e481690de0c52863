package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
)

// rating is what a user gave an item. Both ids are any 64-bit numbers: no one
// counts users or items.
type rating struct {
	user, item uint64
	stars      float32
}

func load(path string) ([]rating, error) {
	if path == "" {
		return planted(2000, 800, 60_000), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := readCSV(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// readCSV reads lines userId,movieId,rating[,timestamp] after a heading.
func readCSV(r io.Reader) (all []rating, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if n == 1 && strings.HasPrefix(lines.Text(), "userId,") {
			continue
		}
		x, err := parseRating(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, x)
	}
	return all, lines.Err()
}

func parseRating(line string) (x rating, err error) {
	fields := strings.Split(line, ",")
	if len(fields) < 3 {
		return x, fmt.Errorf("%q is not userId,movieId,rating", line)
	}
	if x.user, err = strconv.ParseUint(fields[0], 10, 64); err != nil {
		return x, err
	}
	if x.item, err = strconv.ParseUint(fields[1], 10, 64); err != nil {
		return x, err
	}
	stars, err := strconv.ParseFloat(fields[2], 32)
	if err == nil && !(math.Abs(stars) <= 100) {
		err = fmt.Errorf("a rating of %v", stars)
	}
	x.stars = float32(stars)
	return x, err
}

// noise is the standard deviation of the random part of synthetic ratings. It is
// the RMSE of the best possible model.
const noise = 0.4

// planted generates n ratings. Items are drawn by Zipf's law, which popular films
// follow. The stars are computed from 4 factors and the biases of users and items.
func planted(users, items, n int) []rating {
	const dim = 4
	rng := rand.New(rand.NewPCG(1, 2))
	popular := rand.NewZipf(rng, 1.1, 20, uint64(items-1))
	rows := func(n int) [][dim + 1]float64 {
		x := make([][dim + 1]float64, n)
		for i := range x {
			for d := range x[i] {
				x[i][d] = 0.6 * rng.NormFloat64()
			}
		}
		return x
	}
	u, v := rows(users), rows(items)
	all := make([]rating, n)
	for i := range all {
		a, b := rng.IntN(users), int(popular.Uint64())
		stars := 3.5 + u[a][dim] + v[b][dim] + float64(noise*rng.NormFloat64())
		for d := range dim {
			stars += float64(u[a][d] * v[b][d])
		}
		all[i] = rating{user: uint64(a), item: uint64(b), stars: float32(stars)}
	}
	return all
}

// split takes every tenth rating for the test.
func split(all []rating) (train, test []rating) {
	for i, x := range all {
		if i%10 == 9 {
			test = append(test, x)
		} else {
			train = append(train, x)
		}
	}
	return train, test
}

func mean(x []rating) float32 {
	var sum float64
	for _, r := range x {
		sum += float64(r.stars)
	}
	return float32(sum / float64(len(x)))
}

// shuffle gives every rank the same order.
func shuffle(x []rating, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	rng.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
}
