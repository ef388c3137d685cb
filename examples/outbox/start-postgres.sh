#!/usr/bin/env bash
# Starts PostgreSQL on loopback with logical replication, its files in
# ./frazil-data/postgres. It goes on in the background.
#
#     PORT=5432 examples/outbox/start-postgres.sh
set -euo pipefail
port=${PORT:-5432}
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1 || true)
PATH=${bin:+$bin:}$PATH
command -v initdb >/dev/null || { echo "needs PostgreSQL: apt-get install -y --no-install-recommends postgresql" >&2; exit 1; }
mkdir -p frazil-data/postgres && cd frazil-data/postgres
as=()
if [ "$(id -u)" = 0 ]; then # The server does not run as root.
  chown postgres .
  as=(runuser -u postgres --)
  dir=$PWD
  while [ "$dir" != / ]; do
    "${as[@]}" test -x "$dir" || { echo "$dir cannot be entered by the user postgres: run this as another user, or in another folder" >&2; exit 1; }
    dir=$(dirname "$dir")
  done
fi
if [ ! -d data ]; then
  "${as[@]}" initdb -D "$PWD/data" -U postgres --auth=trust -E UTF8 --locale=C.UTF-8 >/dev/null
  "${as[@]}" tee -a data/postgresql.conf >/dev/null <<END
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
wal_level = logical
END
fi
"${as[@]}" pg_ctl -D "$PWD/data" -o "-p $port" -l "$PWD/data/log" -w -t 60 start >/dev/null || { tail -20 data/log >&2; exit 1; }
echo "PostgreSQL serves at postgres://postgres@127.0.0.1:$port/postgres, process $(head -1 data/postmaster.pid); stop it: kill $(head -1 data/postmaster.pid)"
