import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

// Iceberg's own test catalog on one loopback port: RestServer PORT KEY=VALUE...
public class RestServer {
    public static void main(String[] args) throws Exception {
        Map<String, String> properties = new HashMap<>();
        properties.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
        properties.put("jdbc.schema-version", "V1");
        for (int i = 1; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        var catalog = CatalogUtil.buildIcebergCatalog("rest", properties, new Configuration(false));
        var handler = new ServletContextHandler();
        handler.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        var server = new Server();
        var connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(args[0]));
        server.addConnector(connector);
        server.setHandler(handler);
        server.start();
        server.join();
    }
}
