package main

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

const (
	etcdStart = 30 * time.Second
	// Room for runs with hundreds of thousands of pods; the default is 2 GiB.
	etcdQuota = 8 << 30
)

// runEtcd serves one etcd member until a signal arrives.
func runEtcd(args []string) int {
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("data-dir", "", "directory of the data")
	client := flags.String("client-url", "", "where clients connect, as http://127.0.0.1:PORT")
	fsync := flags.Bool("fsync", false, "write through to the disk, for tests of durability")
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	config, err := etcdConfig(*dir, *client, *fsync)
	if err != nil {
		return fail("etcd", err)
	}
	if err := serveEtcd(config); err != nil {
		return fail("etcd", err)
	}
	return 0
}

func etcdConfig(dir, client string, fsync bool) (*embed.Config, error) {
	if dir == "" || client == "" {
		return nil, errors.New("--data-dir and --client-url are both needed")
	}
	clients, err := url.Parse(client)
	if err != nil {
		return nil, fmt.Errorf("--client-url: %w", err)
	}
	peers := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config := embed.NewConfig()
	config.Dir = dir
	config.ListenClientUrls = []url.URL{*clients}
	config.AdvertiseClientUrls = []url.URL{*clients}
	config.ListenPeerUrls = []url.URL{peers}
	config.LogLevel = "error"
	config.UnsafeNoFsync = !fsync
	config.QuotaBackendBytes = etcdQuota
	return config, nil
}

func serveEtcd(config *embed.Config) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	member, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer member.Close()
	select {
	case <-member.Server.ReadyNotify():
	case err := <-member.Err():
		return err
	case <-stop:
		return nil
	case <-time.After(etcdStart):
		return fmt.Errorf("not ready after %s", etcdStart)
	}
	// Whoever started us waits for this line: a port that answers may belong to another process.
	fmt.Println("etcd is ready")
	select {
	case err := <-member.Err():
		return err
	case <-stop:
		return nil
	}
}
