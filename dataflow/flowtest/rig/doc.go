// Package rig gives tests real servers and outside readers: a Kafka broker, a
// schema registry, an MQTT broker, PostgreSQL, MariaDB, an S3 store, an Iceberg REST
// catalog, PyIceberg and DuckDB. It is no part of the product.
//
// ./test/install fetches all of it into the folder .rig at the root of the
// repository (or where FRAZIL_RIG says); ./test/all does that first, then starts
// one server of each kind for all tests of the run and names them by environment
// variables, the only ones that tests read:
//
//	FRAZIL_TEST_KAFKA     HOST:PORT of a broker
//	FRAZIL_TEST_REGISTRY  URL of a schema registry's API, which may be starting yet
//	FRAZIL_TEST_POSTGRES  URL of a PostgreSQL database, of a user who may do all
//	FRAZIL_TEST_MARIADB   a server as go-sql-driver/mysql is given it, of such a user
//	FRAZIL_TEST_S3        ENDPOINT,ACCESS_KEY,SECRET_KEY,s3://BUCKET/PREFIX
//	FRAZIL_TEST_REST      URI,WAREHOUSE of a REST catalog over that store
//	FRAZIL_TEST_REST_AUTH URI,WAREHOUSE,CREDENTIAL of one that asks for a login
//	FRAZIL_TEST_READERS   a python with pyiceberg and duckdb
//	FRAZIL_SHARED         the folder of outside data, default ../shared
//
// What is not named but installed is started for the one test that asks, which
// takes seconds, a minute for the registry. What is neither is skipped with one line;
// with CI=true that test fails instead.
//
// Servers listen on 127.0.0.1 only and end with the process that started them,
// however it ends.
package rig
