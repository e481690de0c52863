package hosts

import "context"

// maxLogins bounds the number of logins in progress. A login takes about 0.3 s, so a thousand
// hosts take 5 s. Hosts that log in to further hosts would save little of it.
const maxLogins = 64

// logins counts the logins in progress.
type logins chan struct{}

func newLogins() logins { return make(logins, maxLogins) }

// do calls login as soon as fewer than maxLogins are in progress.
func (l logins) do(ctx context.Context, login func() error) error {
	select {
	case l <- struct{}{}:
		defer func() { <-l }()
		return login()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
