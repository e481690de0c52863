// Command cachedfs mounts a folder as a network file system with caches does: names, their absence
// and attributes may be as old as a duration, and operations may be answered with an error although
// they were done, as by a server that receives a request twice.
//
//	cachedfs -cache 10s -repeat 5 FOLDER MOUNT
//
// It prints a line when the folder is mounted, and unmounts it on SIGTERM.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node is a file or folder whose operations may be answered as if they were repeated.
type node struct {
	fs.LoopbackNode
	repeats *repeats
}

// repeats makes every n-th operation that changes names an operation that was done before.
type repeats struct {
	every int64
	count atomic.Int64
}

func (r *repeats) due() bool { return r.every > 0 && r.count.Add(1)%r.every == 0 }

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	i, e := n.LoopbackNode.Mkdir(ctx, name, mode, out)
	if e == 0 && n.repeats.due() {
		return nil, syscall.EEXIST
	}
	return i, e
}

func (n *node) Rename(ctx context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	e := n.LoopbackNode.Rename(ctx, name, to, newName, flags)
	if e == 0 && n.repeats.due() {
		return syscall.ENOENT
	}
	return e
}

func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	e := n.LoopbackNode.Unlink(ctx, name)
	if e == 0 && n.repeats.due() {
		return syscall.ENOENT
	}
	return e
}

func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	e := n.LoopbackNode.Rmdir(ctx, name)
	if e == 0 && n.repeats.due() {
		return syscall.ENOENT
	}
	return e
}

func main() {
	cache := flag.Duration("cache", 0, "how old names and attributes may be")
	repeat := flag.Int64("repeat", 0, "answer every `N`-th mkdir, rename, unlink and rmdir as if it had been done before; 0: none")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("cachedfs: give a folder and where to mount it")
	}
	if err := serve(flag.Arg(0), flag.Arg(1), *cache, *repeat); err != nil {
		log.Fatal("cachedfs: ", err)
	}
}

func serve(folder, at string, cache time.Duration, repeat int64) error {
	var st syscall.Stat_t
	if err := syscall.Stat(folder, &st); err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	r := &repeats{every: repeat}
	root := &fs.LoopbackRoot{Path: folder, Dev: uint64(st.Dev)}
	root.NewNode = func(data *fs.LoopbackRoot, _ *fs.Inode, _ string, _ *syscall.Stat_t) fs.InodeEmbedder {
		return &node{fs.LoopbackNode{RootData: data}, r}
	}
	root.RootNode = root.NewNode(root, nil, "", &st)
	server, err := fs.Mount(at, root.RootNode, &fs.Options{
		EntryTimeout: &cache, AttrTimeout: &cache, NegativeTimeout: &cache,
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "cachedfs", AllowOther: true},
	})
	if err != nil {
		return err
	}
	fmt.Println("mounted")
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	<-end
	return server.Unmount()
}
