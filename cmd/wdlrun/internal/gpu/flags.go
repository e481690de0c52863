package gpu

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/rank"
)

func Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "device", Usage: "compute the dense layers on `DEVICE`: cpu, gpu or auto (the faster one); sets train.device", DefaultText: "the configuration's"},
		&cli.StringFlag{Name: "collective", Usage: "sum the gradients of GPUs with `LIBRARY`: nccl (between the GPUs) or host (in the hosts' memory)", DefaultText: "nccl if it is installed and no two ranks share a GPU"},
		ShareFlag(),
	}
}

func ShareFlag() cli.Flag {
	return &cli.BoolFlag{Name: "share-gpu", Usage: "let several ranks use one GPU if a machine has fewer GPUs than ranks"}
}

// Use sets the options of the flags that Flags returns.
func Use(c *cli.Context, opt *train.Options, choice Choice) (err error) {
	opt.Devices, opt.OnGPU, err = DevicesOf(c, choice)
	return err
}

// DevicesOf returns the devices of the flags that Flags returns, nil if this program does not support
// GPUs, and the given flags that only affect GPUs.
func DevicesOf(c *cli.Context, choice Choice) (d train.Devices, given []string, err error) {
	choice.share, choice.sum = c.Bool("share-gpu"), c.String("collective")
	switch choice.sum {
	case "nccl", "host", "":
	default:
		return nil, nil, fmt.Errorf("-collective %q: nccl or host", choice.sum)
	}
	for _, name := range []string{"collective", "share-gpu"} {
		if c.IsSet(name) {
			given = append(given, "-"+name)
		}
	}
	d, err = Devices(choice)
	return d, given, err
}

// Assigned reports whether another launcher started the ranks and may have assigned devices to each.
func Assigned(getenv func(string) string, root *cli.Context) bool {
	_, launched, _ := rank.FromEnv(getenv) // world has checked the environment
	return launched && !root.IsSet("np")
}
